package signature

import (
	"encoding/json"
	"errors"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

const (
	statementType = "application/vnd.in-toto+json" // payload type of the envelope
	statementV1   = "https://in-toto.io/Statement/v1"
	statementV01  = "https://in-toto.io/Statement/v0.1" // cosign's attestations have it

	// signPredicate is the type of the statement that is a signature, with an empty predicate.
	signPredicate = "https://sigstore.dev/cosign/sign/v1"
)

// statement is in-toto's attestation, https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md.
type statement struct {
	Type          string             `json:"_type"`
	Subject       []statementSubject `json:"subject"`
	PredicateType string             `json:"predicateType"`
	Predicate     json.RawMessage    `json:"predicate"`
}

// statementSubject has no name, because the digest is the same in a mirror and the name is not.
type statementSubject struct {
	Digest      map[string]string `json:"digest"`
	Annotations map[string]any    `json:"annotations,omitempty"`
}

func encodeStatement(digest v1.Hash, p Predicate) ([]byte, error) {
	raw, err := encode(statement{statementV1, []statementSubject{{Digest: map[string]string{digest.Algorithm: digest.Hex}}}, p.Type, p.Body})
	if err == nil && len(raw) > maxStatement {
		err = fmt.Errorf("the statement has %d bytes: verifiers here read at most %d", len(raw), maxStatement)
	}
	return raw, err
}

func decodeStatement(raw []byte) (statement, error) {
	var s statement
	if err := decode(raw, maxStatement, &s); err != nil {
		return s, fmt.Errorf("the statement: %w", err)
	}
	if s.Type != statementV1 && s.Type != statementV01 {
		return s, fmt.Errorf("the statement has the type %.80q: known are %s and %s", s.Type, statementV1, statementV01)
	}
	if s.PredicateType == "" {
		return s, errors.New("the statement has no type of predicate")
	}
	return s, nil
}

// about returns the part that is about the image, nil if the statement is about others.
func (s statement) about(digest v1.Hash) *statementSubject {
	for i, subject := range s.Subject {
		if subject.Digest[digest.Algorithm] == digest.Hex {
			return &s.Subject[i]
		}
	}
	return nil
}
