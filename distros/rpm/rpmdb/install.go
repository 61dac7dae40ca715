package rpmdb

import (
	"slices"

	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// keyPackage is the name under which rpm records an imported key; its version is the end of the
// key's fingerprint.
const keyPackage = "gpg-pubkey"

// install returns the packages after an installation. New packages get the next numbers, as with
// rpm.
func install(have Contents, installed []*rpmfile.Header) (Contents, error) {
	packages := slices.Clone(have.Records)
	last := have.Last
	byName := map[string][]int{}
	for i, p := range packages {
		name := p.Header.Text(rpmfile.TagName)
		byName[name] = append(byName[name], i)
	}
	for _, h := range installed {
		if err := recordable(h, last); err != nil {
			return have, err
		}
		name := h.Text(rpmfile.TagName)
		for _, i := range byName[name] {
			if old := packages[i].Header; old != nil && replaces(h, old) {
				packages[i].Header = nil
			}
		}
		if err := obsolete(h, packages[:len(have.Records)]); err != nil {
			return have, err
		}
		last++
		byName[name] = append(byName[name], len(packages))
		packages = append(packages, Record{last, h.Bytes(), stamp(h), h})
	}
	packages = slices.DeleteFunc(packages, func(p Record) bool { return p.Header == nil })
	if len(packages) > MaxRecords {
		return have, damaged("more than %d packages", MaxRecords)
	}
	return Contents{packages, last}, nil
}

// obsolete removes the packages of before that a new one obsoletes by name and version; for rpm,
// the names that they provide do not count. Packages that are installed together do not obsolete
// each other.
func obsolete(h *rpmfile.Header, before []Record) error {
	if !h.Has(rpmfile.TagObsoleteName) {
		return nil
	}
	m, err := h.Metadata()
	if err != nil {
		return err
	}
	for i, p := range before {
		if p.Header == nil || p.Header.Text(rpmfile.TagName) == m.Name {
			continue
		}
		for _, o := range m.Obsoletes {
			if o.Name != p.Header.Text(rpmfile.TagName) {
				continue
			}
			old, err := p.Header.Metadata()
			if err != nil {
				return err
			}
			if o.Matches(rpmfile.Relation{Name: old.Name, Op: "=", EVR: old.EVR}) {
				before[i].Header = nil
			}
		}
	}
	return nil
}

// recordable returns an error for a header that rpm would not find again, or that could not be read
// again.
func recordable(h *rpmfile.Header, last uint32) error {
	name := h.Text(rpmfile.TagName)
	switch {
	case name == "" || h.Text(rpmfile.TagVersion) == "" || h.Text(rpmfile.TagRelease) == "":
		return damaged("a package to record has no name, version or release")
	case len(h.Bytes()) > MaxBlob:
		return damaged("the header of %s has more than %d bytes", name, MaxBlob)
	case last >= MaxNumber:
		return damaged("no number is left for %s; rpm --rebuilddb in the base gives new ones", name)
	}
	return nil
}

// stamp returns the time at which a package was installed. ndb stores the time at which a header
// was written, which is the same.
func stamp(h *rpmfile.Header) uint32 {
	t, _ := h.Int(rpmfile.TagInstallTime)
	return uint32(t)
}

// replaces reports whether a package cannot be installed beside another one.
func replaces(h, old *rpmfile.Header) bool {
	same := func(tag rpmfile.Tag) bool { return h.Text(tag) == old.Text(tag) }
	if !same(rpmfile.TagName) {
		return false
	}
	const noarch = "noarch"
	arch := h.Text(rpmfile.TagArch)
	oldArch := old.Text(rpmfile.TagArch)
	if arch != oldArch && arch != noarch && oldArch != noarch {
		return false
	}
	if h.Text(rpmfile.TagName) != keyPackage &&
		!rpmfile.InstallOnly(h.Text(rpmfile.TagName), h.Texts(rpmfile.TagProvideName)) {
		return true
	}
	epoch, _ := h.Int(rpmfile.TagEpoch)
	oldEpoch, _ := old.Int(rpmfile.TagEpoch)
	return epoch == oldEpoch && same(rpmfile.TagVersion) && same(rpmfile.TagRelease)
}
