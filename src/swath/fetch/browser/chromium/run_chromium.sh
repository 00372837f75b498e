#!/bin/sh
# Starts Chromium for launch.py, which says how by variables; the arguments are Chromium's own and are handed on.
# As another user where one is named, with nothing of our environment, and killed when the driver that started it dies.
# The profile is the one that was made for its user, not the driver's: that the driver removes at the end, with more
# rights than this user may have, and must not be led elsewhere by what is in it.
profile="$BROWSER_PROFILE"
for argument in "$@"; do
    shift
    case "$argument" in --user-data-dir=*) argument="--user-data-dir=$profile" ;; esac
    set -- "$@" "$argument"
done
set -- "$BROWSER_PROGRAM" "$@"
[ -z "$BROWSER_DISPLAY" ] || set -- DISPLAY="$BROWSER_DISPLAY" XAUTHORITY="$BROWSER_AUTHORITY" "$@"
set -- env -i HOME="$profile" TMPDIR="$TMPDIR" PATH=/usr/bin:/bin LANG=C.UTF-8 "$@"
[ -z "$BROWSER_NO_NEW_RIGHTS" ] || set -- --no-new-privs "$@"
if [ -n "$BROWSER_UID" ]; then
    set -- --reuid="$BROWSER_UID" --regid="$BROWSER_GID" --clear-groups "$@"
fi
# A page that takes all memory is found out within seconds, and must not have all of it by then. An ordinary process of
# Chromium's has some hundred MiB; each may have 4 GiB.
ulimit -d 4194304
exec "$BROWSER_LEASH" --pdeathsig KILL "$@"
