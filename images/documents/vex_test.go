package documents

import (
	"fmt"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/distros/failure"
)

var (
	digest               = "sha256:" + strings.Repeat("a", 64)
	gcc                  = "pkg:deb/debian/gcc-12@12.2.0-14?arch=amd64&distro=debian-12"
	kmod                 = "pkg:deb/debian/kmod@30?arch=amd64&distro=debian-12"
	digests, packageURLs = []string{digest}, []string{gcc, kmod}

	openVEX = `{
  "@context": "https://openvex.dev/ns/v0.2.0", "@id": "https://example.com/vex/1", "author": "Example", "timestamp": "2026-01-31T12:00:00Z", "version": 1,
  "statements": [
    {"vulnerability": {"name": "CVE-2024-1234"}, "products": [{"@id": "pkg:oci/driver@` + digest + `?arch=amd64", "subcomponents": [{"@id": "` + gcc + `"}]}],
     "status": "not_affected", "justification": "vulnerable_code_not_in_execute_path"},
    {"vulnerability": {"name": "CVE-2024-5678"}, "products": [{"@id": "pkg:deb/debian/kmod@30?arch=amd64"}], "status": "affected", "action_statement": "update"},
    {"vulnerability": {"name": "CVE-2024-9"}, "products": [{"@id": "driver", "hashes": {"sha-256": "` + strings.Repeat("a", 64) + `"}}], "status": "fixed"}
  ]}`
)

func TestCheckVEX(t *testing.T) {
	t.Parallel()
	assert.NoError(t, CheckVEX([]byte(openVEX), digests, packageURLs))
}

func TestCheckVEXRefuses(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct{ old, with, want string }{
		"context":       {"/v0.2.0", "/v9", "@context"},
		"id":            {`"@id": "https://example.com/vex/1", `, "", "@id, author"},
		"author":        {`"author": "Example", `, "", "@id, author"},
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
		"no statements": {openVEX[strings.Index(openVEX, "[\n")+1 : len(openVEX)-2], "", "0 statements"},
	} {
		text := strings.Replace(openVEX, c.old, c.with, 1)
		if what == "more" {
			text = openVEX + " 1"
		}
		err := CheckVEX([]byte(text), digests, packageURLs)
		if failure.KindOf(err) != failure.Usage || !strings.Contains(fmt.Sprint(err), c.want) || text == openVEX {
			t.Errorf("%s: %v", what, err)
		}
	}
	assert.ErrorContains(t, CheckVEX([]byte(openVEX+strings.Repeat(" ", maxVEX)), digests, packageURLs), "larger than")
}

func FuzzCheckVEX(f *testing.F) {
	f.Add([]byte(openVEX))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := CheckVEX(data, digests, packageURLs); err != nil && failure.KindOf(err) != failure.Usage {
			t.Errorf("an error of no kind: %v", err)
		}
	})
}
