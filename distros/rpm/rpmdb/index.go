package rpmdb

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// Tags that only the indexes use; the numbers are those of rpm's rpmtag.h.
const (
	tagRecommendName         rpmfile.Tag = 5046
	tagSuggestName           rpmfile.Tag = 5049
	tagSupplementName        rpmfile.Tag = 5052
	tagEnhanceName           rpmfile.Tag = 5055
	tagFileTriggerName       rpmfile.Tag = 5069
	tagFileTriggerIndex      rpmfile.Tag = 5070
	tagTransFileTriggerName  rpmfile.Tag = 5079
	tagTransFileTriggerIndex rpmfile.Tag = 5080
)

// index is one of the indexes of a database. It finds packages by one entry of their headers.
type index struct {
	tag    rpmfile.Tag
	table  string // its name in sqlite; also that of its file in bdb
	many   bool   // the entry is an array: sqlite also has an index by package
	binary bool   // keys are bytes, not text: sqlite has no index by key
	rich   bool   // rpm also indexes the names inside of rich dependencies
	// triggers has, for the paths of file triggers, the numbers of the triggers that they belong
	// to.
	triggers rpmfile.Tag
}

// indexes are those of rpm 4.14 to 4.20, in its order. rpm makes an index that is missing.
var indexes = []index{
	{tag: rpmfile.TagName, table: "Name"},
	{tag: rpmfile.TagBaseNames, table: "Basenames", many: true},
	{tag: rpmfile.TagGroup, table: "Group"},
	{tag: rpmfile.TagRequireName, table: "Requirename", many: true, rich: true},
	{tag: rpmfile.TagProvideName, table: "Providename", many: true},
	{tag: rpmfile.TagConflictName, table: "Conflictname", many: true, rich: true},
	{tag: rpmfile.TagObsoleteName, table: "Obsoletename", many: true},
	{tag: rpmfile.TagTriggerName, table: "Triggername", many: true},
	{tag: rpmfile.TagDirNames, table: "Dirnames", many: true},
	{tag: rpmfile.TagInstallTID, table: "Installtid", binary: true},
	{tag: rpmfile.TagSigMD5, table: "Sigmd5", binary: true},
	{tag: rpmfile.TagSHA1Header, table: "Sha1header"},
	{tag: tagFileTriggerName, table: "Filetriggername", many: true, triggers: tagFileTriggerIndex},
	{
		tag:      tagTransFileTriggerName,
		table:    "Transfiletriggername",
		many:     true,
		triggers: tagTransFileTriggerIndex,
	},
	{tag: tagRecommendName, table: "Recommendname", many: true, rich: true},
	{tag: tagSuggestName, table: "Suggestname", many: true, rich: true},
	{tag: tagSupplementName, table: "Supplementname", many: true, rich: true},
	{tag: tagEnhanceName, table: "Enhancename", many: true, rich: true},
}

// posting is one item of an index for a package: a key, and the key's position in the header's
// entry.
type posting struct {
	key      string
	position uint32
}

// maxPostings is the upper bound for an index. A workstation with 5000 packages has 500000 files.
const maxPostings = 8 << 20

// postings returns the items of an index for a package, as rpm fills it (tag2index in rpm's
// lib/rpmdb.c).
func (x index) postings(h *rpmfile.Header) []posting {
	keys := x.keys(h)
	out := make([]posting, 0, len(keys))
	flags := h.Ints(rpmfile.TagRequireFlags)
	triggers := h.Ints(x.triggers)
	seen := map[string]bool{}
	for i, key := range keys {
		position := uint32(i)
		switch {
		case x.tag == rpmfile.TagRequireName && i < len(flags) && transient(flags[i]):
			continue
		case x.tag == rpmfile.TagTriggerName:
			if seen[key] {
				continue // only the first trigger on a package
			}
			seen[key] = true
		case len(triggers) > 0: // the position is that of the trigger instead of the path
			position = 0
			if i < len(triggers) {
				position = uint32(triggers[i])
			}
		}
		out = append(out, posting{key, position})
		if strings.HasPrefix(key, "(") && x.rich {
			for _, name := range richNames(key) {
				out = append(out, posting{name, position})
			}
		}
	}
	return out
}

// keys returns the values of the index's entry in a header.
func (x index) keys(h *rpmfile.Header) []string {
	switch {
	case !h.Has(x.tag) && x.tag == rpmfile.TagGroup:
		return []string{"Unknown"}
	case x.tag == rpmfile.TagInstallTID: // in the machine's byte order: all systems built here are little endian
		var out []string
		for _, n := range h.Ints(x.tag) {
			out = append(out, string(binary.LittleEndian.AppendUint32(nil, uint32(n))))
		}
		return out
	case x.binary:
		if data := h.Binary(x.tag); len(data) > 0 {
			return []string{string(data)}
		}
		return nil
	case !x.many: // the group is translated: only the first text counts
		return h.Texts(x.tag)[:min(1, len(h.Texts(x.tag)))]
	}
	return h.Texts(x.tag)
}

// Bits of rpm's rpmds.h: the purposes of a requirement.
const (
	// %posttrans, %pretrans, %pre, %post, rpmlib(...), keys
	senseInstall = 1<<5 | 1<<7 | 1<<9 | 1<<10 | 1<<24 | 1<<26
	// %preun, %postun, %preuntrans, %postuntrans
	senseErase = 1<<11 | 1<<12 | 1<<20 | 1<<21
	senseMeta  = 1 << 29
)

// transient reports whether a requirement ends with the installation, so that no later search needs
// to find it.
func transient(flags uint64) bool {
	return flags&senseInstall != 0 && flags&senseErase == 0 && flags&senseMeta == 0
}

// richNames returns the names in a rich dependency, sorted. Names in conditions begin with "!":
// when such a package is installed, another one may be missing. A dependency that cannot be parsed
// has no names; rpm does the same.
func richNames(text string) []string {
	r, err := rpmfile.ParseRequirement(text)
	if err != nil {
		return nil
	}
	names := map[string]bool{}
	addNames(names, r, false)
	return slices.Sorted(maps.Keys(names))
}

func addNames(names map[string]bool, r rpmfile.Requirement, negative bool) {
	if r.Operator == "" {
		name := r.Relation.Name
		switch {
		case strings.HasPrefix(name, "rpmlib("):
		case negative:
			names["!"+name] = true
		default:
			names[name] = true
		}
		return
	}
	conditional := r.Operator == "if" || r.Operator == "unless"
	for i, part := range r.Parts {
		addNames(names, part, negative != (conditional && i == 1))
		if conditional && i == 1 && len(r.Parts) == 3 {
			// with an else part, the condition matters in both cases
			addNames(names, part, negative)
		}
	}
}
