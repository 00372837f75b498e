#!/bin/sh
# Starts Chromium for launch.py, which says how by variables; the arguments are Chromium's own and are handed on.
# As another user where one is named, with nothing of our environment, and killed when the driver that started it dies.
profile=
for argument in "$@"; do
    case "$argument" in --user-data-dir=*) profile="${argument#--user-data-dir=}" ;; esac
done
# Choices that people have in its settings. Without the first a page that prints itself waits in a window for somebody to
# choose a printer, for ever; with the second no page is loaded in advance, past the gate, because another one says so.
# With the third a site's 401 is an answer like others: else anything that a page loads may wait for a password, for ever.
if [ -n "$profile" ]; then
    mkdir -p "$profile/Default" || exit 1
    printf '{"printing":{"enabled":false},"net":{"network_prediction_options":2}}' >"$profile/Default/Preferences"
    printf '{"auth":{"schemes":""}}' >"$profile/Local State"
fi
set -- "$BROWSER_PROGRAM" "$@"
[ -z "$BROWSER_DISPLAY" ] || set -- DISPLAY="$BROWSER_DISPLAY" "$@"
set -- env -i HOME="$profile" TMPDIR="$TMPDIR" PATH=/usr/bin:/bin LANG=C.UTF-8 "$@"
[ -z "$BROWSER_NO_NEW_RIGHTS" ] || set -- --no-new-privs "$@"
if [ -n "$BROWSER_UID" ]; then
    chown -R "$BROWSER_UID:$BROWSER_GID" "$profile" || exit 1
    set -- --reuid="$BROWSER_UID" --regid="$BROWSER_GID" --clear-groups "$@"
fi
# A page that takes all memory is found out within seconds, and must not have all of it by then. An ordinary process of
# Chromium's has some hundred MiB; each may have 4 GiB.
ulimit -d 4194304
exec "$BROWSER_LEASH" --pdeathsig KILL "$@"
