package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/distros/osrelease"
	"github.com/driver-container/driver-container/images/gpus"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
)

// machine is a node with what it gets: an image, or a reason.
type machine struct {
	*Node
	code, reason string // why it gets nothing; "" if it gets a driver
	target       matrix.Target
	kernel       string // of a precompiled image
	// the driver whose modules the node's system loads; "" if the container brings them
	host     string
	flavours []string // that work for its GPUs and kernel, the preferred one first
	need     need     // what its GPUs ask of a driver
	devices  []string // labels that name its GPUs
	settings string   // what its pool has to say, so that machines with the same can share one
	// settings, and what may need another driver later: more than a pool has to say
	class string
	// its kernel, or how new its GPUs are, gives it something else than its class would get
	unusual bool
	pooled  bool // a pool chooses it
}

// restricted reports whether fewer flavours work than the driver has.
func (m *machine) restricted() bool { return len(m.flavours) < len(m.target.Driver.Flavours) }

// moduleType returns the flavour that the pool must name; "" if the node may decide.
func (m *machine) moduleType() string {
	if m.restricted() {
		return m.flavours[0]
	}
	return ""
}

// tag returns the tag of the image that a machine gets.
func (m *machine) tag() string {
	if m.kernel == "" {
		return m.target.Tag()
	}
	tag, _ := recipe.KernelTags(m.target, m.kernel)
	return tag
}

// free reports whether a machine gets a driver and has no pool yet.
func (m *machine) free() bool { return m.code == "" && !m.pooled }

// refuse takes the driver from a machine.
func (m *machine) refuse(code, format string, args ...any) {
	*m = machine{
		Node:    m.Node,
		need:    m.need,
		devices: m.devices,
		code:    code,
		reason:  fmt.Sprintf(format, args...),
	}
}

// Decide makes the plan of a fleet.
func Decide(m *matrix.Matrix, nodes []Node, o Options) (*Plan, error) {
	if _, err := m.Select(matrix.Selection{All: true, Drivers: o.Drivers, Flavours: o.Flavours}); err != nil {
		return nil, failure.Of(failure.Usage, err)
	}
	c := &chooser{
		matrix:  m,
		options: o,
		targets: map[string][]matrix.Target{},
		known:   map[string]machine{},
	}
	p := &Plan{
		Schema:  Schema,
		Nodes:   len(nodes),
		Images:  []Image{},
		Pools:   []Pool{},
		Without: []Without{},
		hit:     map[string]bool{},
		Managed: o.Managed,
	}
	var all []*machine
	nodes = slices.SortedFunc(
		slices.Values(nodes),
		func(a, b Node) int { return cmp.Compare(a.Name, b.Name) },
	)
	for i := range nodes {
		one := c.choose(&nodes[i])
		if driver := one.Driver(); driver != "" && (one.code == NoGPU || one.code == GPUUnknown) {
			one.refuse(
				NotLabelled,
				"its labels name driver %s, and none says that it has a GPU: is node feature discovery at work there?",
				driver,
			)
		}
		one.devices = deviceLabels(one.Node)
		all = append(all, one)
	}
	if slices.ContainsFunc(all, func(m *machine) bool { return m.Labels != nil }) {
		p.choosePools(all, o)
	}
	p.collect(c, all)
	p.noteHits(all)
	p.warnOfSwitches(all)
	return p, nil
}

// grouped returns the element of a list with a key, which is made at its first use.
func grouped[T any](list *[]T, position map[string]int, key string, first func() T) *T {
	at, ok := position[key]
	if !ok {
		at = len(*list)
		position[key] = at
		*list = append(*list, first())
	}
	return &(*list)[at]
}

// collect adds what the machines need, each image once, and what is to be said of them.
func (p *Plan) collect(c *chooser, all []*machine) {
	images := map[string]int{}
	without := map[string]int{}
	hints := map[string]int{}
	// nodes by warnings: what stands before and after their names
	warned := map[[2]string][]string{}
	warn := func(m *machine, before, after string) {
		text := [2]string{before, after}
		warned[text] = append(warned[text], m.Name)
	}
	for _, m := range all {
		if m.code != "" {
			w := grouped(&p.Without, without, m.code+"\x00"+m.reason, func() Without { return Without{Code: m.code, Reason: m.reason} })
			w.Nodes = append(w.Nodes, m.Name)
			if driver := m.Driver(); driver != "" && !slices.Contains(w.Running, driver) {
				w.Running = append(w.Running, driver)
			}
			continue
		}
		im := grouped(&p.Images, images, m.tag(), func() Image { return c.image(m, m.tag(), m.kernel) })
		im.add(m)
		if tag := m.setTag(c.options); tag != "" {
			grouped(&p.Images, images, tag, func() Image { return c.image(m, tag, m.Kernel) }).add(m)
		}
		for _, text := range []string{c.heldBack(m), osrelease.Hint(m.OSImage, m.Kernel), m.unnamed(), c.maybeManaged(m)} {
			if text != "" {
				hint := grouped(&p.Hints, hints, text, func() Hint { return Hint{Text: text} })
				hint.Nodes = append(hint.Nodes, m.Name)
			}
		}
		if m.need.unknown != "" {
			warn(m, m.need.unknown+" of ", " is "+gpus.TakenForNew)
		}
		if m.GPUs.Unnamed != "" {
			warn(m, "the label "+m.GPUs.Unnamed+" of ", " names no known GPU: all that it says is that there is one")
		}
		if !m.readsZstd() {
			warn(m, m.Runtime+" of ", " does not read images of --compression zstd: give them images of --compression gzip")
		}
		for _, t := range m.Taints {
			if !slices.Contains(p.Taints, t) && t.keepsOff() {
				p.Taints = append(p.Taints, t)
			}
		}
	}
	for i := range p.Images {
		p.Images[i].close()
	}
	for text, nodes := range warned {
		p.Warnings = append(p.Warnings, text[0]+strings.Join(nodes, ", ")+text[1])
	}
	slices.Sort(p.Warnings)
	slices.SortFunc(p.Images, func(a, b Image) int { return cmp.Compare(a.Tag, b.Tag) })
	slices.SortFunc(p.Without, func(a, b Without) int { return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Reason, b.Reason)) })
	slices.SortFunc(p.Taints, func(a, b Taint) int {
		return cmp.Or(cmp.Compare(a.Key, b.Key), cmp.Compare(a.Value, b.Value), cmp.Compare(a.Effect, b.Effect))
	})
}

// Unserved are the machines with a GPU that get nothing.
func (p *Plan) Unserved() []Without {
	return slices.DeleteFunc(
		slices.Clone(p.Without),
		func(w Without) bool { return slices.Contains(elsewhere, w.Code) },
	)
}

// CheckReason checks the name of a reason that is accepted.
func CheckReason(code string) error {
	if code != "all" && !slices.Contains(losses, code) {
		return failure.Errorf(
			failure.Usage,
			"%q is no reason that can be accepted: use %s or all",
			code,
			strings.Join(losses, ", "),
		)
	}
	return nil
}

// CheckServed returns an error if a machine with a GPU gets nothing, for a reason that is not
// accepted. "all" accepts every reason.
func (p *Plan) CheckServed(accepted []string) error {
	count := 0
	codes := []string(nil)
	for _, w := range p.Unserved() {
		if !slices.Contains(accepted, w.Code) && !slices.Contains(accepted, "all") {
			count += len(w.Nodes)
			codes = append(codes, w.Code)
		}
	}
	if count == 0 {
		return nil
	}
	return failure.Errorf(
		failure.Unserved,
		"nodes with a GPU that get no driver: %d: mend what is named above, or accept it with "+
			"--allow-unserved %s",
		count,
		strings.Join(slices.Compact(codes), ","),
	)
}
