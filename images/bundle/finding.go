package bundle

import (
	"cmp"
	"fmt"
	"slices"
)

// Rule names what a finding is about.
type Rule string

// The rules that a bundle is verified by.
const (
	RuleArchive   Rule = "archive"   // the tar itself: names, kinds and order of members, bytes between them
	RuleDamaged   Rule = "damaged"   // content that does not have its digest
	RuleMissing   Rule = "missing"   // on the list and not in the file
	RuleExtra     Rule = "extra"     // in the file and not on the list
	RuleSize      Rule = "size"      // a size that is not that of the list
	RuleList      Rule = "list"      // the list itself, or documents that do not fit it
	RuleIndex     Rule = "index"     // index.json is not that of the list
	RuleSignature Rule = "signature" // none, or not by the key that is trusted
)

// Finding is one thing that is wrong with a bundle.
type Finding struct {
	File    string `json:"file"`             // "" for the bundle as a whole
	Member  string `json:"member,omitempty"` // "" for the file as a whole
	Rule    Rule   `json:"rule"`
	Message string `json:"message"`
}

func (f Finding) String() string {
	text := string(f.Rule) + ": " + f.Message
	for _, where := range []string{f.Member, f.File} {
		if where != "" {
			text = where + ": " + text
		}
	}
	return text
}

// Sort orders findings and removes repetitions.
func Sort(findings []Finding) []Finding {
	slices.SortFunc(findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Member, b.Member), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	return slices.Compact(findings)
}

// Unsound returns an ErrUnsound when there are findings.
func Unsound(findings []Finding) error {
	if len(findings) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d findings, the first: %s", ErrUnsound, len(findings), findings[0])
}
