package main

import (
	"encoding/json"
	"testing"

	"github.com/driver-container/driver-container/ci/testkit/assert"
	"github.com/driver-container/driver-container/ci/testkit/goldentest"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/cmd/driver-build/session"
	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/status"
)

// TestSignedModules: kernels shows what the distribution signed, plans take it, by the lock too, and another version
// is refused with what to do.
func TestSignedModules(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	const signed, other = "5.4.0-216-generic", "5.4.0-218-generic"
	u.offers("ubuntu18.04", signed, other,
		"linux-modules-nvidia-535-server-open-"+signed+" nvidia-kernel-common-535-server (<= 535.261.03-1), nvidia-kernel-common-535-server (>= 535.261.03)",
		"linux-modules-nvidia-535-server-open-"+other+" nvidia-kernel-common-535-server (>= 535.288.01)",
		"linux-modules-nvidia-535-server-open-generic linux-modules-nvidia-535-server-open-"+signed)
	assert.Contains(t, u.kernels(t, "--os ubuntu18.04").Want(t, 0).Stdout, "SIGNED")
	list := u.kernels(t, "--os ubuntu18.04 -o json").Want(t, 0).Stdout
	goldentest.Schema(t, "kernels.schema.json", list)
	var answer struct{ Items []status.OfferedKernel }
	require.NoError(t, json.Unmarshal([]byte(list), &answer))
	rows := answer.Items
	assert.Equalf(t, 2, len(rows), "kernels")
	assert.Same(t, []distros.SignedDriver{{Driver: "535.288.01", Flavour: "open"}}, rows[0].Signed)
	assert.Same(t, []distros.SignedDriver{{Driver: "535.261.03", Flavour: "open"}}, rows[1].Signed)

	of := "--os ubuntu18.04 --driver 535.261.03 --flavour open --modules-from distribution"
	var planned recipe.Recipe
	require.NoError(t, json.Unmarshal([]byte(u.tool(t, of+" --dry-run --kernel latest").Want(t, 0).Stdout), &planned))
	assert.Equalf(t, signed, planned.Kernels[0].Release, "the newest kernel with signed modules")
	first := planned.Kernels[0].Signed["open"][0]
	assert.Equalf(t, "linux-modules-nvidia-535-server-open-"+signed, first.Name, "package")
	assert.Equalf(t, 0, len(planned.Compiler)+len(planned.Kernels[0].Headers), "packages to compile with")
	u.tool(t, of+" --dry-run --kernel "+other).Want(t, session.ExitUsage, "of driver 535.288.01", "files of 535.261.03", "give --driver 535.288.01", "add-driver")
	u.tool(t, of+" --dry-run --kernel all --flavour proprietary").Want(t, session.ExitUsage, "no signed")
	missing := u.tool(t, "plan "+of+" --kernel latest --repository "+u.Host+"/gpu/driver")
	assert.Contains(t, missing.Stdout, "535.261.03-"+signed+"-ubuntu18.04")

	u.tool(t, "lock "+of+" --kernel "+signed).Want(t, 0)
	assert.Contains(t, u.tool(t, of+" --dry-run --kernel "+signed).Want(t, 0).Stdout, first.SHA256)
	u.tool(t, "--os ubuntu18.04 --driver 535.261.03 --flavour open --dry-run --kernel "+signed).Want(t, session.ExitUsage, "is not what was locked", "signed modules of "+signed)
}
