package supplychain

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/ci/testkit/testfile"
)

// TestDocuments proves the validators: each accepts a document, and refuses it with one change.
func TestDocuments(t *testing.T) {
	judged(t)
	for kind, changes := range map[Kind][][2]string{
		SPDX: {
			{`"relatedSpdxElement": "SPDXRef-Package-kmod"`, `"relatedSpdxElement": "SPDXRef-Package-none"`}, {"SPDX-2.3", "SPDX-9.3"},
			{`"versionInfo"`, `"version"`}, {`"SHA256"`, `5`},
		},
		CycloneDX:  {{`"1.6"`, `"9.6"`}, {`"bom-ref"`, `"ref"`}, {`"dependsOn": ["kmod"]`, `"dependsOn": "kmod"`}},
		Provenance: {{"Statement/v1", "Statement/v9"}, {`"digest"`, `"digests"`}, {`"buildType"`, `"type"`}, {"https://example.com/driver-build@1.0", ""}, {"provenance/v1", "provenance/v0.2"}},
		Statement:  {{"Statement/v1", "Statement/v9"}, {`"predicate"`, `"content"`}},
		OpenVEX:    {{`"not_affected"`, `"fine"`}, {`"justification"`, `"reason"`}, {`"author": "Example"`, `"author": ""`}},
	} {
		name := string(kind) + ".json"
		if kind == Statement {
			name = "provenance.json"
		}
		good := string(require.Value(os.ReadFile(filepath.Join("testdata", name)))(t))
		file := testfile.Write(t, filepath.Join(t.TempDir(), name), good)
		assert.NoErrorf(t, Validate(t, kind, file), "%s", kind)
		for _, change := range changes {
			bad := strings.Replace(good, change[0], change[1], 1)
			assert.Equalf(t, true, bad != good, "%s: %q can be changed", name, change[0])
			testfile.Write(t, file, bad)
			assert.Errorf(t, Validate(t, kind, file), "%s: %q instead of %q", kind, change[1], change[0])
		}
	}
}
