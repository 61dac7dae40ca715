package imagetest

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"testing"

	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// entries returns the entries of the header.
func (p RPM) entries(t testing.TB, payload []byte) []rpmfile.Entry {
	evr := p.evr(t)
	var all []rpmfile.Entry
	text := func(tag rpmfile.Tag, s string) {
		all = append(all, rpmfile.Entry{Tag: tag, Type: rpmfile.TypeString, Value: s})
	}
	texts := func(tag rpmfile.Tag, s ...string) {
		all = append(all, rpmfile.Entry{Tag: tag, Type: rpmfile.TypeStringArray, Value: s})
	}
	ints := func(tag rpmfile.Tag, n ...uint32) {
		all = append(all, rpmfile.Entry{Tag: tag, Type: rpmfile.TypeInt32, Value: n})
	}
	text(rpmfile.TagName, p.Name)
	text(rpmfile.TagVersion, evr.Version)
	text(rpmfile.TagRelease, evr.Release)
	if evr.Epoch != "" {
		ints(rpmfile.TagEpoch, uint32(evr.Epoch[0]-'0'))
	}
	text(rpmfile.TagArch, p.arch())
	text(rpmfile.TagOS, "linux")
	text(rpmfile.TagLicense, "MIT")
	text(rpmfile.TagSourceRPM, p.Name+"-"+evr.Version+"-"+evr.Release+".src.rpm")
	ints(rpmfile.TagBuildTime, RPMTime)
	text(rpmfile.TagPayloadFormat, "cpio")
	text(rpmfile.TagPayloadCompressor, "gzip")
	texts(rpmfile.TagPayloadDigest, fmt.Sprintf("%x", sha256.Sum256(payload)))
	ints(rpmfile.TagPayloadDigestAlgo, 8)
	ints(rpmfile.TagFileDigestAlgo, 8)
	self := rpmfile.Relation{Name: p.Name, Op: "=", EVR: evr}
	for tags, list := range map[[3]rpmfile.Tag][]string{
		{rpmfile.TagProvideName, rpmfile.TagProvideFlags, rpmfile.TagProvideVersion}:    append(slices.Clone(p.Provides), self.String()),
		{rpmfile.TagRequireName, rpmfile.TagRequireFlags, rpmfile.TagRequireVersion}:    p.Requires,
		{rpmfile.TagConflictName, rpmfile.TagConflictFlags, rpmfile.TagConflictVersion}: p.Conflicts,
		{rpmfile.TagObsoleteName, rpmfile.TagObsoleteFlags, rpmfile.TagObsoleteVersion}: p.Obsoletes,
	} {
		if len(list) == 0 {
			continue
		}
		var names, versions []string
		var flags []uint32
		for _, r := range relations(t, list) {
			names, flags = append(names, r.Name), append(flags, sense[r.Op])
			if versions = append(versions, ""); r.Op != "" {
				versions[len(versions)-1] = r.EVR.String()
			}
		}
		texts(tags[0], names...)
		ints(tags[1], flags...)
		texts(tags[2], versions...)
	}
	return append(all, p.fileEntries()...)
}

// fileEntries returns the arrays with the attributes of each file.
func (p RPM) fileEntries() []rpmfile.Entry {
	var dirs []string
	columns := map[rpmfile.Tag][]string{}
	numbers := map[rpmfile.Tag][]uint32{}
	var modes []uint16
	text := func(tag rpmfile.Tag, s string) { columns[tag] = append(columns[tag], s) }
	number := func(tag rpmfile.Tag, n int) { numbers[tag] = append(numbers[tag], uint32(n)) }
	size := 0
	for i, f := range p.Files {
		dir, base := path.Split(f.rpmPath())
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
		digest := ""
		if f.mode()>>12 == 0o10 {
			digest = fmt.Sprintf("%x", sha256.Sum256([]byte(f.Body)))
		}
		text(rpmfile.TagBaseNames, base)
		text(rpmfile.TagFileDigests, digest)
		text(rpmfile.TagFileLinkTos, f.Link)
		text(rpmfile.TagFileUserName, "root")
		text(rpmfile.TagFileGroupName, "root")
		text(rpmfile.TagFileCaps, p.Caps[f.Name])
		number(rpmfile.TagDirIndexes, slices.Index(dirs, dir))
		number(rpmfile.TagFileSizes, len(f.Body+f.Link))
		number(rpmfile.TagFileFlags, 0)
		number(rpmfile.TagFileMTimes, RPMTime)
		number(rpmfile.TagFileDevices, 1)
		number(rpmfile.TagFileInodes, i+1)
		modes = append(modes, f.mode())
		size += len(f.Body)
	}
	all := []rpmfile.Entry{{Tag: rpmfile.TagSize, Type: rpmfile.TypeInt32, Value: []uint32{uint32(size)}}}
	if len(p.Files) == 0 {
		return all
	}
	columns[rpmfile.TagDirNames] = dirs
	for tag, v := range columns {
		all = append(all, rpmfile.Entry{Tag: tag, Type: rpmfile.TypeStringArray, Value: v})
	}
	for tag, v := range numbers {
		all = append(all, rpmfile.Entry{Tag: tag, Type: rpmfile.TypeInt32, Value: v})
	}
	return append(all, rpmfile.Entry{Tag: rpmfile.TagFileModes, Type: rpmfile.TypeInt16, Value: modes})
}

// sense are the flags of relations.
var sense = map[string]uint32{"<": 2, "<=": 10, "=": 8, ">=": 12, ">": 4}

// relations parses them; a rich relation becomes its whole text as a name.
func relations(t testing.TB, list []string) (all []rpmfile.Relation) {
	for _, text := range list {
		r, err := rpmfile.ParseRequirement(text)
		if err != nil {
			t.Fatalf("imagetest: %q: %v", text, err)
		}
		if r.Kind != "" {
			r.Relation = rpmfile.Relation{Name: text}
		}
		all = append(all, r.Relation)
	}
	return all
}
