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
	"github.com/driver-container/driver-container/images/releases"
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

// served reports whether a machine gets a driver.
func (m *machine) served() bool { return m.code == "" }

// free reports whether a machine gets a driver and has no pool yet.
func (m *machine) free() bool { return m.served() && !m.pooled }

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

// Recommend says what each node of a fleet gets.
func Recommend(m *matrix.Matrix, nodes []Node, o Options) (*Recommendation, error) {
	if _, err := m.Select(matrix.Selection{All: true, Drivers: o.Drivers, Flavours: o.Flavours}); err != nil {
		return nil, failure.Of(failure.Usage, err)
	}
	c := newChooser(m, o)
	r := &Recommendation{
		Schema:  Schema,
		Nodes:   len(nodes),
		Images:  []NeededImage{},
		Pools:   []Pool{},
		Without: []Without{},
		hit:     map[string]bool{},
		Managed: o.Managed,

		Exposures: map[string]*releases.Exposure{},
	}
	var all machines
	byName := func(a, b Node) int { return cmp.Compare(a.Name, b.Name) }
	nodes = slices.SortedFunc(slices.Values(nodes), byName)
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
		r.choosePools(all, o)
	}
	r.collect(c, all)
	r.noteHits(all)
	return r, nil
}

// collect says what the machines need: each image once, and each reason, hint and warning once with
// the names of its nodes.
func (r *Recommendation) collect(c *chooser, all machines) {
	served := all.where((*machine).served)
	for _, g := range served.by(c.tags) {
		r.Images = append(r.Images, c.image(g))
	}
	for _, g := range served.by(c.hints) {
		r.Hints = append(r.Hints, Hint{Text: g.key, Nodes: g.nodes.names()})
	}
	for _, g := range served.by((*machine).warnings) {
		names := strings.Join(g.nodes.names(), ", ")
		r.Warnings = append(r.Warnings, strings.Replace(g.key, theNodes, names, 1))
	}
	for _, g := range all.by((*machine).refusals) {
		r.Without = append(r.Without, Without{
			Code:    g.nodes[0].code,
			Reason:  g.nodes[0].reason,
			Nodes:   g.nodes.names(),
			Running: g.nodes.running(),
		})
	}
	drivers := all.running()
	for _, im := range r.Images {
		drivers = append(drivers, im.Driver)
	}
	for _, driver := range drivers {
		exposure := c.options.Advisor.Vulnerabilities().Exposure(driver)
		if exposure != nil {
			r.Exposures[driver] = exposure
		}
	}
	for _, m := range served {
		r.Taints = append(r.Taints, m.Taints...)
	}
	r.Taints = slices.DeleteFunc(r.Taints, func(t Taint) bool { return !t.keepsOff() })
	slices.SortFunc(r.Taints, Taint.compare)
	r.Taints = slices.Compact(r.Taints)
	slices.Sort(r.Warnings)
	slices.SortFunc(r.Images, func(a, b NeededImage) int { return cmp.Compare(a.Tag, b.Tag) })
	slices.SortFunc(r.Without, func(a, b Without) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Reason, b.Reason))
	})
}

// compare orders taints by key, value and effect.
func (t Taint) compare(other Taint) int {
	return cmp.Or(
		cmp.Compare(t.Key, other.Key),
		cmp.Compare(t.Value, other.Value),
		cmp.Compare(t.Effect, other.Effect),
	)
}

// refusals returns the code and reason for which a machine gets no driver.
func (m *machine) refusals() []string {
	if m.served() {
		return nil
	}
	return []string{m.code + " " + m.reason}
}

// theNodes stands for the names of nodes in a warning.
const theNodes = "\x00"

// warnings say what may be wrong with a driver for a machine.
func (m *machine) warnings() (all []string) {
	if m.need.unknown != "" {
		all = append(all, m.need.unknown+" of "+theNodes+" is "+gpus.TakenForNew)
	}
	if m.GPUs.Unnamed != "" {
		all = append(all, "the label "+m.GPUs.Unnamed+" of "+theNodes+
			" names no known GPU: all that it says is that there is one")
	}
	if !m.readsZstd() {
		all = append(all, m.Runtime+" of "+theNodes+
			" does not read images of --compression zstd: give them images of --compression gzip")
	}
	if lacking := m.lacks(m.target); len(lacking) > 0 {
		all = append(all, fmt.Sprintf("%s: driver %s comes without %s, which the matrix does not have: %s. "+
			"Choose one whose components driver-build list shows without a question mark",
			theNodes, m.target.Driver.Version, strings.Join(lacking, " and "), consequence))
	}
	return all
}

// hints say what machines with a driver could do better.
func (c *chooser) hints(m *machine) []string {
	all := []string{c.heldBack(m), osrelease.Hint(m.OSImage, m.Kernel), m.unnamed(), c.maybeManaged(m)}
	return slices.DeleteFunc(all, isEmpty)
}

func isEmpty(text string) bool { return text == "" }

// Unserved are the machines with a GPU that get nothing.
func (r *Recommendation) Unserved() []Without {
	return slices.DeleteFunc(
		slices.Clone(r.Without),
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
func (r *Recommendation) CheckServed(accepted []string) error {
	count := 0
	codes := []string(nil)
	for _, w := range r.Unserved() {
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
