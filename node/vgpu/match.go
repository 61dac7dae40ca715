package vgpu

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Answer says whether a guest driver fits a host.
type Answer struct {
	Fits    bool
	Known   bool     // the catalogue knows the host's branch and the guest's driver
	Reason  string   // why it does not fit, or why that is not known
	Fitting []string // versions of guest drivers that fit, newest first
}

// Match compares a guest's driver with the host of a vGPU. A guest driver fits if
//
//   - its own entry allows the host's driver by version, or
//   - neither its entry denies the host's driver, nor one of the two branches the other, and the guest's
//     branch names the host's as allowed and the other way round;
//   - and the entry of the host's driver, if there is one, neither denies it, nor allows only others.
//
// Limits on processors and GPUs take an entry out for machines that they are not for. The rules are those of
// the catalogue's own words and of NVIDIA's vgpu-util, which implements them incompletely.
func (c *Catalogue) Match(g Guest, version string) Answer {
	host, guests, reason := c.branches(g)
	if reason != "" {
		return Answer{Reason: reason}
	}
	hostDriver := c.hostDriver(g)
	var fitting []Driver
	answer := Answer{}
	for _, d := range c.Drivers {
		if d.Type != typeGuest || len(d.OS) > 0 && !slices.Contains(d.OS, "Linux") || !d.Allow.accepts(d.Deny.Machine, g) {
			continue
		}
		reason := c.refusal(d, g.Host, host, guests, hostDriver)
		if reason == "" {
			fitting = append(fitting, d)
		}
		if d.Version == version {
			answer.Known, answer.Fits, answer.Reason = true, reason == "", reason
		}
	}
	slices.SortStableFunc(fitting, func(a, b Driver) int {
		if n := strings.Compare(b.Date, a.Date); n != 0 {
			return n
		}
		return strings.Compare(b.Version, a.Version)
	})
	for _, d := range fitting {
		answer.Fitting = append(answer.Fitting, d.Version)
	}
	if !answer.Known {
		answer.Reason = fmt.Sprintf("the catalogue of %s does not have the guest driver %s for this machine", c.Date, version)
	}
	return answer
}

// branches returns the host's branch, and the names of the guest branches that the two sides allow.
func (c *Catalogue) branches(g Guest) (host Branch, guests map[string]bool, reason string) {
	i := slices.IndexFunc(c.Branches, func(b Branch) bool {
		return b.Type == typeHost && strings.EqualFold(b.Name, g.Host.Branch) && b.Allow.accepts(b.Deny.Machine, g)
	})
	if i < 0 {
		return Branch{}, nil, fmt.Sprintf("the catalogue of %s does not have the host's branch %s: get a newer one", c.Date, g.Host.Branch)
	}
	host, guests = c.Branches[i], map[string]bool{}
	for _, b := range c.Branches {
		if b.Type == typeGuest && b.Allow.accepts(b.Deny.Machine, g) && contains(b.Allow.Branch, host.Name) && !contains(b.Deny.Branch, host.Name) &&
			contains(host.Allow.Branch, b.Name) && !contains(host.Deny.Branch, b.Name) {
			guests[strings.ToUpper(b.Name)] = true
		}
	}
	return host, guests, ""
}

// hostDriver returns the entry of the host's driver, nil for none.
func (c *Catalogue) hostDriver(g Guest) *Driver {
	for i, d := range c.Drivers {
		if d.Type == typeHost && strings.EqualFold(d.Version, g.Host.Version) && strings.EqualFold(d.Branch, g.Host.Branch) && d.Allow.accepts(d.Deny.Machine, g) {
			return &c.Drivers[i]
		}
	}
	return nil
}

// refusal says why a guest driver does not fit, "" if it does.
func (c *Catalogue) refusal(d Driver, h Host, branch Branch, guests map[string]bool, hostDriver *Driver) string {
	switch allowed := d.Allow.names(h.Version); {
	case d.Deny.names(h.Version):
		return fmt.Sprintf("guest driver %s does not work with host driver %s", d.Version, h.Version)
	case !allowed && !guests[strings.ToUpper(d.Branch)]:
		return fmt.Sprintf("branch %s of guest driver %s does not work with branch %s of the host", d.Branch, d.Version, branch.Name)
	case hostDriver == nil:
		return ""
	case hostDriver.Deny.names(d.Version):
		return fmt.Sprintf("host driver %s does not work with guest driver %s", h.Version, d.Version)
	case len(hostDriver.Allow.Driver) > 0 && !hostDriver.Allow.names(d.Version):
		return fmt.Sprintf("host driver %s works with other guest drivers only", h.Version)
	}
	return ""
}

func contains(names []string, name string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
}

// names reports whether a limit names a version.
func (l DriverLimit) names(version string) bool {
	for _, d := range l.Driver {
		if strings.EqualFold(d.Version, version) {
			return true
		}
	}
	return false
}

// accepts reports whether the limits on processor and GPU leave this machine in. A list that is empty says
// nothing.
func (m Machine) accepts(deny Machine, g Guest) bool {
	const guestCPU = "x86" // guest drivers are for amd64 only
	return (len(m.CPU) == 0 || contains(m.CPU, guestCPU)) && !contains(deny.CPU, guestCPU) && (len(m.GPU) == 0 || m.has(g)) && !deny.has(g)
}

// has reports whether the GPU is in the list. An entry with a subsystem is for this part of the GPU only.
func (m Machine) has(g Guest) bool {
	same := func(text string, id uint16) bool {
		n, err := strconv.ParseUint(strings.TrimPrefix(strings.ToLower(text), "0x"), 16, 16)
		return err == nil && uint16(n) == id
	}
	for _, gpu := range m.GPU {
		if same(gpu.Device, g.GPU.Device) && (gpu.Subsystem == "" || same(gpu.Subsystem, g.GPU.SubDevice)) {
			return true
		}
	}
	return false
}
