package signature

import (
	"errors"
	"testing"

	"github.com/driver-container/driver-container/ci/require"
	"github.com/driver-container/driver-container/images/oci"
)

// TestUnverified: attestations of anybody are read, in both formats; signatures are none, and one that is
// about another image or malformed says so.
func TestUnverified(t *testing.T) {
	t.Parallel()
	subject := request(Both).Subjects[0]
	all := sign(t, request(Both), "p256")
	read := func(attachments ...oci.Attachment) []Finding {
		return require.Value(Unverified(Subject{Descriptor: subject.Descriptor, Attachments: attachments}))(t)
	}
	found := read(all...)
	if len(found) != 2*len(subject.Predicates) {
		t.Errorf("%d attestations of %d predicates: %+v", len(found), len(subject.Predicates), found)
	}
	for _, f := range found {
		if f.Err != nil || len(f.Keys) > 0 || f.Predicate.Type == "" {
			t.Errorf("%+v", f)
		}
	}
	other := Subject{Descriptor: subject.Descriptor, Attachments: all}
	other.Descriptor.Digest.Hex = oci.HashOf([]byte("another")).Hex
	for _, f := range require.Value(Unverified(other))(t) {
		if !errors.Is(f.Err, ErrSubject) {
			t.Errorf("%+v", f)
		}
	}
	for _, a := range all {
		if a.Tag != oci.AttestationTag(subject.Descriptor.Digest) {
			continue
		}
		for _, f := range read(changed(t, a, func(string) string { return "{" })) {
			if !errors.Is(f.Err, ErrMalformed) {
				t.Errorf("%+v", f)
			}
		}
	}
}
