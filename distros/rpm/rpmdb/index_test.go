package rpmdb

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros/rpm/rpmfile"
)

// TestRichNames compares with the names that rpm 4.20 indexes for rich dependencies.
func TestRichNames(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"(a and b)":                         {"a", "b"},
		"(a >= 1 or b or (c with d))":       {"a", "b", "c", "d"},
		"(a if b)":                          {"!b", "a"},
		"(a unless b)":                      {"!b", "a"},
		"(a if b else c)":                   {"!b", "a", "b", "c"},
		"(a if (b if c))":                   {"!b", "a", "c"},
		"(a without b)":                     {"a", "b"},
		"(a or rpmlib(X) or a)":             {"a"},
		"(a if":                             nil,
		"(libfoo(x86-64) = 1 if b(x))":      {"!b(x)", "libfoo(x86-64)"},
		"((a if b) and (b if a))":           {"!a", "!b", "a", "b"},
		"(a if (b unless c else d) else e)": {"!b", "!c", "!d", "a", "b", "c", "d", "e"},
	} {
		assert.Samef(t, want, richNames(text), "%s", text)
	}
}

func TestPostings(t *testing.T) {
	t.Parallel()
	h := header(t,
		entry(rpmfile.TagRequireName, []string{"plain", "pre", "both", "rpmlib(X)", "meta", "(a if b)"}),
		entry(rpmfile.TagRequireFlags, []uint32{0, 1 << 9, 1<<9 | 1<<11, 1 << 24, 1<<10 | 1<<29, 0}),
		entry(rpmfile.TagTriggerName, []string{"x", "y", "x"}),
		entry(tagFileTriggerName, []string{"/lib", "/usr/lib", "/lib"}),
		entry(tagFileTriggerIndex, []uint32{0, 1}), // one too few
		entry(rpmfile.TagInstallTID, []uint32{0x01020304}),
		entry(rpmfile.TagSigMD5, []byte{1, 2}),
	)
	for table, want := range map[string][]posting{
		"Requirename":     {{"plain", 0}, {"both", 2}, {"meta", 4}, {"(a if b)", 5}, {"!b", 5}, {"a", 5}},
		"Triggername":     {{"x", 0}, {"y", 1}},
		"Filetriggername": {{"/lib", 0}, {"/usr/lib", 1}, {"/lib", 0}},
		"Installtid":      {{"\x04\x03\x02\x01", 0}},
		"Sigmd5":          {{"\x01\x02", 0}},
		"Group":           {{"Unknown", 0}},
		"Name":            {},
	} {
		for _, x := range indexes {
			if diff := cmp.Diff(want, x.postings(h), cmp.AllowUnexported(posting{})); x.table == table && diff != "" {
				t.Errorf("%s:\n%s", table, diff)
			}
		}
	}
}
