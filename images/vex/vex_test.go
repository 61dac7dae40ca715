package vex

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/assert"
	"github.com/driver-container/driver-container/ci/require"
)

var (
	digest  = "sha256:" + strings.Repeat("a", 64)
	gcc     = "pkg:deb/debian/gcc-12@12.2.0-14?arch=amd64&distro=debian-12"
	kmod    = "pkg:deb/debian/kmod@30?arch=amd64&distro=debian-12"
	about   = Subject{Digests: []string{digest}, Packages: []string{gcc, kmod}}
	example = `{
  "@context": "https://openvex.dev/ns/v0.2.0", "@id": "https://example.com/vex/1", "author": "Example", "timestamp": "2026-01-31T12:00:00Z", "version": 1,
  "statements": [
    {"vulnerability": {"name": "CVE-2024-1234"}, "products": [{"@id": "pkg:oci/driver@` + digest + `?arch=amd64", "subcomponents": [{"@id": "` + gcc + `"}]}],
     "status": "not_affected", "justification": "vulnerable_code_not_in_execute_path"},
    {"vulnerability": {"name": "CVE-2024-5678"}, "products": [{"@id": "pkg:deb/debian/kmod@30?arch=amd64"}], "status": "affected", "action_statement": "update"},
    {"vulnerability": {"name": "CVE-2024-9"}, "products": [{"@id": "driver", "hashes": {"sha-256": "` + strings.Repeat("a", 64) + `"}}], "status": "fixed"}
  ]}`
)

func TestRead(t *testing.T) {
	t.Parallel()
	doc := require.Value(Read([]byte(example), about))(t)
	assert.Equal(t, 3, len(doc.Statements))
	again := require.Value(Read(require.Value(doc.Encode())(t), about))(t)
	assert.Same(t, doc, again)
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ old, with, want string }{
		"context":       {"/v0.2.0", "/v9", "@context"},
		"id":            {`"@id": "https://example.com/vex/1", `, "", "@id and author"},
		"author":        {`"author": "Example", `, "", "@id and author"},
		"version":       {`"version": 1`, `"version": 0`, "version"},
		"time":          {"2026-01-31T12:00:00Z", "yesterday", "timestamp"},
		"field":         {`"author"`, `"autor"`, "autor"},
		"no name":       {"CVE-2024-1234", "", "names no vulnerability"},
		"status":        {`"not_affected"`, `"fine"`, "status"},
		"justification": {"vulnerable_code_not_in_execute_path", "trust_me", "justification"},
		"reason":        {`, "justification": "vulnerable_code_not_in_execute_path"`, "", "needs a justification"},
		"action":        {`, "action_statement": "update"`, "", "action_statement"},
		"wrong place":   {`"status": "fixed"`, `"status": "fixed", "justification": "component_not_present"`, "justification"},
		"other image":   {"driver@" + digest, "driver@sha256:" + strings.Repeat("b", 64), "neither the image"},
		"other package": {"kmod@30", "kmod@31", "neither the image"},
		"qualifier":     {"kmod@30?arch=amd64", "kmod@30?arch=arm64", "neither the image"},
		"part":          {"gcc-12@12.2.0-14", "gcc-13@13", "not one of the image's packages"},
		"deeper":        {`{"@id": "` + gcc + `"}`, `{"@id": "` + gcc + `", "subcomponents": [{"@id": "x"}]}`, "has subcomponents"},
		"no products":   {`[{"@id": "pkg:deb/debian/kmod@30?arch=amd64"}]`, "[]", "0 products"},
		"more":          {"]}", "]} 1", "follows its end"},
		"no statements": {example[strings.Index(example, "[\n")+1 : len(example)-2], "", "0 statements"},
	} {
		text := strings.Replace(example, c.old, c.with, 1)
		if what == "more" {
			text = example + " 1"
		}
		_, err := Read([]byte(text), about)
		if !errors.Is(err, ErrFormat) || !strings.Contains(fmt.Sprint(err), c.want) || text == example {
			t.Errorf("%s: %v", what, err)
		}
	}
	many := Document{Statements: make([]Statement, maxStatements+1)}
	for what, text := range map[string]string{
		"large": example + strings.Repeat(" ", maxBytes), "statements": string(require.Value(json.Marshal(many))(t)),
		"products": strings.Replace(example, `{"@id": "pkg:deb/debian/kmod@30?arch=amd64"}`, strings.Repeat(`{},`, maxProducts)+"{}", 1),
	} {
		if _, err := Read([]byte(text), about); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(example))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Read(data, about)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("an error of no kind: %v", err)
			}
			return
		}
		text, err := doc.Encode()
		if err == nil {
			_, err = Read(text, about)
		}
		if err != nil {
			t.Error(err)
		}
	})
}
