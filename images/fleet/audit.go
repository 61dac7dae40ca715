package fleet

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/failure"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
	"github.com/driver-container/driver-container/images/status"
)

// Audit says which drivers the nodes of a fleet run, what is known of these, and what mends it.
type Audit struct {
	Schema int        `json:"schema"`
	Nodes  int        `json:"nodes"`      // how many were read
	NoGPU  int        `json:"withoutGPU"` // of these, that have none and run no driver
	Groups []AuditRow `json:"items"`
	// Vulnerabilities are those of the drivers that run, by the version of the driver, the highest
	// score first.
	Vulnerabilities map[string][]releases.Vulnerability `json:"vulnerabilities"`
}

// AuditRow is nodes that run the same driver, and for which the same is to be done.
type AuditRow struct {
	Nodes   []string `json:"nodes"`
	Kernels []string `json:"kernels"`
	Driver  string   `json:"driver,omitempty"` // that runs; "" if nothing says which
	Source  string   `json:"source,omitempty"` // what says so: a label, a condition
	// how long NVIDIA supports its branch: "LTS until 2028-06", "over since 2026-06"
	Support   string             `json:"support,omitempty"`
	Exposure  *releases.Exposure `json:"vulnerabilities,omitempty"` // nil: no CVE is known
	KnownBad  []string           `json:"knownBad,omitempty"`        // other faults of the driver
	Findings  []string           `json:"findings"`                  // kinds of what is wrong: those of --fail-on
	Recommend string             `json:"recommended,omitempty"`     // driver; "" if the matrix has none
	// for which reason of fleet driver-build's image is not for these nodes; "" if it is
	Code    string `json:"code,omitempty"`
	Advice  string `json:"advice,omitempty"`  // what to do, in words
	Command string `json:"command,omitempty"` // that builds the image, without a shell's quotes

	first *machine // of the nodes
	archs []string
}

// DriverUnknown is the kind of finding of nodes with a GPU of which nothing says what they run.
const DriverUnknown = "unknown"

// auditKinds are the kinds of findings.
var auditKinds = []string{releases.Vulnerable, driverinfo.EndOfLife, driverinfo.KnownBad, DriverUnknown}

// CheckFinding checks a kind of finding, or vulnerable=SCORE.
func CheckFinding(kind string) error {
	_, scored := releases.ParseVulnerable(kind)
	if scored || slices.Contains(auditKinds, kind) {
		return nil
	}
	const format = "%.40q is no kind of finding: it is one of %s or vulnerable=SCORE"
	return failure.Errorf(failure.Usage, format, kind, strings.Join(auditKinds, ", "))
}

// NewAudit judges what nodes run. arguments are flags that each command has.
func NewAudit(m *matrix.Matrix, nodes []Node, o Options, arguments []string) *Audit {
	c := newChooser(m, o)
	o.Managed = true // for nodes whose platform brings the driver
	forced := newChooser(m, o)
	audit := &Audit{
		Schema:          Schema,
		Nodes:           len(nodes),
		Groups:          []AuditRow{},
		Vulnerabilities: map[string][]releases.Vulnerability{},
	}
	rows := map[string]*AuditRow{}
	for i := range nodes {
		n := &nodes[i]
		driver, source := n.Running()
		one := c.choose(n)
		if driver == "" && slices.Contains(driverless, one.code) {
			audit.NoGPU++
			continue
		}
		d := one.driver(m, driver)
		better := one
		if one.code == HostDriver || one.code == ManagedDriver {
			free := *n
			free.GPUs.HostDriver = false
			better = forced.choose(&free)
		}
		best := forced.best(better)
		key := fmt.Sprintf("%q", []any{driver, source, faults(d), one.code, one.reason, best, better.tag()})
		row := rows[key]
		if row == nil {
			row = &AuditRow{Driver: driver, Source: source, Code: one.code, Recommend: best}
			row.first = one
			row.judge(d, o.Advisor)
			rows[key] = row
		}
		row.Nodes = append(row.Nodes, n.Name)
		row.Kernels = append(row.Kernels, n.Kernel)
		row.archs = append(row.archs, n.Arch)
	}
	for _, row := range rows {
		slices.Sort(row.Nodes)
		slices.Sort(row.Kernels)
		row.Kernels = slices.Compact(row.Kernels)
		slices.Sort(row.archs)
		row.advise(arguments)
		audit.Groups = append(audit.Groups, *row)
		if row.Exposure != nil {
			audit.Vulnerabilities[row.Driver] = o.Advisor.Vulnerabilities().Of(row.Driver)
		}
	}
	slices.SortFunc(audit.Groups, AuditRow.compare)
	return audit
}

// driverless are the reasons for which nothing is to be known of a node that names no driver.
var driverless = []string{NoGPU, GPUUnknown, ForMachines}

// driver returns the driver that a machine runs, with the advisories that are about the machine.
func (m *machine) driver(known *matrix.Matrix, version string) matrix.Driver {
	other := func(a matrix.Advisory) bool { return a.Nodes != nil && !m.hits(a) }
	all := slices.DeleteFunc(known.AdvisoriesOf(version), other)
	return matrix.Driver{Version: version, Advisories: all}
}

// faults are the IDs of a driver's advisories.
func faults(d matrix.Driver) (ids []string) {
	for _, a := range d.Advisories {
		ids = append(ids, a.ID)
	}
	return ids
}

// compare orders rows: the highest score first, then the oldest driver.
func (r AuditRow) compare(other AuditRow) int {
	return cmp.Or(
		cmp.Compare(other.highest(), r.highest()),
		cmp.Compare(len(other.Findings), len(r.Findings)),
		matrix.CompareVersions(r.Driver, other.Driver),
		slices.Compare(r.Nodes, other.Nodes),
	)
}

func (r AuditRow) highest() float64 {
	if r.Exposure == nil {
		return -1
	}
	return r.Exposure.Highest
}

// anyDriver are the reasons for which a node gets no image, and may run any driver for its GPUs.
var anyDriver = []string{HostDriver, ManagedDriver, OwnWay, SystemUnknown}

// best returns the driver that a machine should run: the one that it gets, or else, where no image
// of the matrix is for it, the best that drives its GPUs.
func (c *chooser) best(m *machine) string {
	isWindows := m.ID == "windows" || distros.ParseRelease(m.Kernel).Kind() == distros.WSLKernel
	switch {
	case m.served():
		return m.target.Driver.Version
	case isWindows || m.GPUs.VGPU || !slices.Contains(anyDriver, m.code):
		return ""
	}
	need := needOf(m.GPUs)
	key := need.String() + need.unknown
	known, ok := c.bests[key]
	if ok {
		return known
	}
	var suited []matrix.Driver
	for _, d := range c.matrix.Drivers {
		drives := func(flavour string) bool { return need.check(d.Version, flavour) == nil }
		if slices.ContainsFunc(d.Flavours, drives) {
			suited = append(suited, d)
		}
	}
	c.bests[key] = c.options.Advisor.Recommend(suited).Driver
	return c.bests[key]
}

// judge says what is known of the driver that runs.
func (r *AuditRow) judge(d matrix.Driver, advisor releases.Advisor) {
	r.Findings = []string{}
	if r.Driver == "" {
		r.Findings = append(r.Findings, DriverUnknown)
		return
	}
	var ended bool
	r.Support, ended = advisor.Support(d)
	r.Exposure = advisor.Vulnerabilities().Exposure(r.Driver)
	for _, note := range advisor.Notes(d) {
		if note.Kind == driverinfo.KnownBad {
			r.KnownBad = append(r.KnownBad, note.Text(advisor.Day))
		}
	}
	for kind, found := range map[string]bool{
		releases.Vulnerable:  r.Exposure != nil,
		driverinfo.EndOfLife: ended,
		driverinfo.KnownBad:  len(r.KnownBad) > 0,
	} {
		if found {
			r.Findings = append(r.Findings, kind)
		}
	}
	slices.Sort(r.Findings)
}

// advise says what mends a row.
func (r *AuditRow) advise(arguments []string) {
	m := r.first
	switch {
	case !m.served():
		r.Advice = m.reason
		return
	case r.Driver == r.Recommend && len(r.Findings) > 0:
		r.Advice = "no driver of the matrix is better for its GPU and kernel"
		return
	case r.Driver == r.Recommend:
		return
	}
	if r.Driver == "" {
		r.Advice = "nothing says which driver it runs: the labels of GPU feature discovery do"
	}
	task := status.Task{System: m.target.System.ID, Driver: r.Recommend, Archs: slices.Compact(r.archs)}
	if m.kernel != "" {
		task.Kernels = []string{m.kernel}
	}
	task, err := status.NewTask(task, arguments)
	if err == nil { // else a name cannot be a word of a command
		r.Command = "driver-build " + task.Args
	}
}

// Fail returns an error if rows have findings of some kinds; none means all. vulnerable=SCORE is about CVEs of this
// score or a higher one.
func (a *Audit) Fail(kinds []string) error {
	if len(kinds) == 0 {
		kinds = auditKinds
	}
	count := map[string]int{}
	nodes := 0
	for _, row := range a.Groups {
		found := row.has(kinds)
		for _, kind := range found {
			count[kind] += len(row.Nodes)
		}
		if len(found) > 0 {
			nodes += len(row.Nodes)
		}
	}
	if nodes == 0 {
		return nil
	}
	var parts []string
	for _, kind := range slices.Compact(slices.Sorted(slices.Values(kinds))) {
		if count[kind] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", kind, count[kind]))
		}
	}
	const format = "nodes whose driver is not as it should be: %d (%s): do what is advised, or accept it with --fail-on"
	return failure.Errorf(failure.Exposed, format, nodes, strings.Join(parts, ", "))
}

// has returns those of some kinds that a row has.
func (r AuditRow) has(kinds []string) (all []string) {
	for _, kind := range kinds {
		score, scored := releases.ParseVulnerable(kind)
		if scored && r.highest() >= score || slices.Contains(r.Findings, kind) {
			all = append(all, kind)
		}
	}
	return all
}
