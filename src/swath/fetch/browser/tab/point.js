(node, [x, y]) => {
  // Where to click on an element: in its frame, and counted from its padding; null for its middle.
  // Recorded offsets are counted from its border. A driver clicks only where the element is on top, and a recorded place
  // need not be on it: the middle of a ring, the corner of a link that is broken over two lines.
  const steps = 9;
  const root = node.getRootNode();
  const goal = node.closest("button, a, [role=button], [role=link]") || node;
  const isOn = ([left, top]) => {
    let at = (root.elementFromPoint ? root : document).elementFromPoint(left, top);
    while (at && at !== goal) at = at.assignedSlot || at.parentNode || at.host;
    return at === goal;
  };
  const recorded = box => {
    const left = x ?? box.width / 2, top = y ?? box.height / 2;
    const inside = left >= 0 && left < box.width && top >= 0 && top < box.height;
    return inside ? [box.left + left, box.top + top] : [box.left + box.width / 2, box.top + box.height / 2];
  };
  const onOutline = () => {
    const matrix = node.getTotalLength && node.getScreenCTM && node.getScreenCTM();
    if (!matrix) return [];
    const length = node.getTotalLength(), found = [];
    for (let step = 0; step < steps; step++) {
      const at = node.getPointAtLength((length * (step + 0.5)) / steps).matrixTransform(matrix);
      found.push([at.x, at.y]);
    }
    return found;
  };
  const inBoxes = () => {
    const found = [];
    for (const box of node.getClientRects())
      for (let row = 0; row < steps; row++)
        for (let column = 0; column < steps; column++)
          found.push([box.left + (box.width * (column + 0.5)) / steps, box.top + (box.height * (row + 0.5)) / steps]);
    return found;
  };
  const place = ([left, top], box) => {
    const style = getComputedStyle(node);
    const border = ["Left", "Top"].map(side => parseInt(style[`border${side}Width`], 10) || 0);
    return {
      at: [left, top],
      border,
      position: [left - box.left - border[0], top - box.top - border[1]],
      plain: window === window.top && !(node instanceof SVGElement),
    };
  };

  let box = node.getBoundingClientRect(), wanted = recorded(box);
  if (!isOn(wanted)) {
    node.scrollIntoView({block: "center", inline: "center", behavior: "instant"});
    box = node.getBoundingClientRect();
    wanted = recorded(box);
  }
  const isGiven = x !== null || y !== null;
  if (isOn(wanted)) return isGiven ? place(wanted, box) : null;
  const far = ([left, top]) => Math.hypot(left - wanted[0], top - wanted[1]);
  const near = [...onOutline(), ...inBoxes()].sort((one, other) => far(one) - far(other)).find(isOn);
  if (near) return place(near, box);
  return isGiven ? place(wanted, box) : null;
}
