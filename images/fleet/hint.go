package fleet

import (
	"fmt"
	"slices"

	"github.com/driver-container/driver-container/images/gpus"
	"github.com/driver-container/driver-container/images/releases"
)

// Hint is what machines with a driver could do better.
type Hint struct {
	Text  string   `json:"text"`
	Nodes []string `json:"nodes"`
}

// addHints adds which GPUs keep machines at an older driver than their other GPUs would get, such as a card for
// a screen in a server.
func (p *Plan) addHints(c *chooser, all []Node, answers []answer) {
	position := map[string]int{}
	for i := range all {
		if text := c.heldBack(all[i], &answers[i]); text != "" {
			hint := grouped(&p.Hints, position, text, func() Hint { return Hint{Text: text} })
			hint.Nodes = append(hint.Nodes, all[i].Name)
		}
	}
}

// heldBack names the GPUs without which a machine would get a newer driver; "" if there are none.
func (c *chooser) heldBack(n Node, a *answer) string {
	if a.code != "" || len(n.GPUs.Devices) < 2 {
		return ""
	}
	oldest := slices.MinFunc(n.GPUs.Devices, func(a, b uint16) int { return lastBranch(a) - lastBranch(b) })
	old, rest := n.GPUs, n.GPUs
	isOld := func(device uint16) bool { return lastBranch(device) == lastBranch(oldest) }
	old.Devices = slices.DeleteFunc(slices.Clone(n.GPUs.Devices), func(device uint16) bool { return !isOld(device) })
	rest.Devices = slices.DeleteFunc(slices.Clone(n.GPUs.Devices), isOld)
	if n.GPUs = rest; len(rest.Devices) == 0 {
		return ""
	}
	b := c.answer(&n)
	if b.code != "" || releases.Compare(b.target.Driver.Version, a.target.Driver.Version) <= 0 {
		return ""
	}
	return fmt.Sprintf("%s gets driver %s because of %s: without it, driver %s",
		needOf(rest), a.target.Driver.Version, needOf(old), b.target.Driver.Version)
}

// lastBranch is the number of the last branch that drives a GPU, a high one if it is not known.
func lastBranch(device uint16) int {
	if g, ok := gpus.Lookup(device); ok && g.LastBranch != "" {
		return gpus.BranchNumber(g.LastBranch)
	}
	return 1 << 30
}
