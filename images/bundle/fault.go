package bundle

import (
	"fmt"

	"github.com/driver-container/driver-container/distros/escape"
	"github.com/driver-container/driver-container/distros/failure"
)

// ErrUnsound says that a bundle is not what its list and its signature say: damaged, incomplete, or
// changed.
var ErrUnsound = failure.New(failure.Content, "the bundle is not sound")

// Rule names what a finding is about.
type Rule string

// The rules that a bundle is verified by.
const (
	// the tar itself: names, kinds and order of members, bytes between them
	RuleArchive   Rule = "archive"
	RuleDamaged   Rule = "damaged"   // content that does not have its digest
	RuleMissing   Rule = "missing"   // on the list and not in the file
	RuleExtra     Rule = "extra"     // in the file and not on the list
	RuleSize      Rule = "size"      // a size that is not that of the list
	RuleList      Rule = "list"      // the list itself, or documents that do not fit it
	RuleIndex     Rule = "index"     // index.json is not that of the list
	RuleSignature Rule = "signature" // none, or not by the key that is trusted
)

// Fault is one thing that is wrong with a bundle. As an error it is an [ErrUnsound].
type Fault struct { //nolint:errname // it is printed as a finding, and is an error where it ends the reading
	File    string `json:"file"`             // "" for the bundle as a whole
	Member  string `json:"member,omitempty"` // "" for the file as a whole
	Rule    Rule   `json:"rule"`
	Message string `json:"message"`
}

func fault(rule Rule, member, format string, args ...any) Fault {
	return Fault{Member: member, Rule: rule, Message: fmt.Sprintf(format, args...)}
}

// String is the finding on one line: names of members are whatever the file says.
func (f Fault) String() string {
	text := string(f.Rule) + ": " + f.Message
	for _, where := range []string{f.Member, f.File} {
		if where != "" {
			text = where + ": " + text
		}
	}
	return escape.Line(text)
}

func (f Fault) Error() string { return ErrUnsound.Error() + ": " + f.String() }

// Unwrap makes it an ErrUnsound.
func (Fault) Unwrap() error { return ErrUnsound }

// Unsound returns an ErrUnsound when there are findings.
func Unsound(findings []Fault) error {
	if len(findings) == 0 {
		return nil
	}
	return fmt.Errorf(
		"%w: %d findings, the first: %s",
		ErrUnsound,
		len(findings),
		findings[0].String(),
	)
}
