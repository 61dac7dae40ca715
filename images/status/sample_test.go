package status

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	drivercontainer "github.com/driver-container/driver-container"
	"github.com/driver-container/driver-container/ci/testkit/require"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/releases"
)

// sample is a report on the matrix of this project with states, digests and sizes that follow from the tags:
// the same every time.
func sample(t testing.TB) Page {
	t.Helper()
	m := require.Value(matrix.Parse("matrix.yaml", drivercontainer.Matrix))(t)
	r := Page{
		Generated: time.Unix(1_800_000_000, 0), Tool: "driver-build v0.0.0", Matrix: "matrix.yaml", Repository: "registry.example.com/gpu/driver",
		Notes: []string{"NVIDIA's list of releases could not be read, the built-in table is used."},
	}
	for _, d := range slices.Backward(m.Drivers) {
		of := releases.Coverage{Branch: releases.Branch{Type: releases.Production, End: "2026-02"}, Over: d.Version < "56"}
		r.Drivers = append(r.Drivers, Column{Driver: d, Of: of})
	}
	r.Drivers[1].Components, r.Drivers[1].Unknown = []string{"fabricmanager (amd64, arm64)", "nvlsm (amd64, arm64)"}, []string{"imex (amd64, arm64)"}
	r.Drivers[1].CUDA, r.Drivers[1].Runs, r.Drivers[1].Faults = "13.2", "CUDA 13.3: minor-version: with limits", []string{"known to be bad: <b>pods</b> stay Pending"}
	r.Drivers[1].Of.Lags, r.Drivers[1].Of.Newest = true, "595.91.07"
	r.Systems = append(r.Systems, m.Systems...)
	good := require.Value(m.Select(matrix.Selection{All: true}))(t)
	for n, g := range good {
		sum := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(g.Tag()+g.Arch)))
		c := Cell{
			Pair:  Pair{System: g.System.ID, Driver: g.Driver.Version, Arch: g.Arch, Tag: g.Tag(), Source: "run"},
			State: Built, Kernels: g.System.Kernels,
			Digest: sum, Size: 300_000_000 + int64(n)*1_234_567, Created: r.Generated.AddDate(0, 0, -n),
		}
		switch n % 11 {
		case 3:
			c.State, c.Digest, c.Size, c.Created = Missing, "", 0, time.Time{}
		case 7:
			c.State, c.Why = Old, "base image: sha256:0f0f0f0f0f0f is now sha256:1e1e1e1e1e1e"
		case 8:
			c.Modules, c.Source = []string{"6.1.0-53-amd64", "6.1.0-50-amd64", "6.1.0-50-cloud-amd64"}, "deb"
			c.Patches, c.Companions = []string{"open-pci-resize-resource (open)"}, []string{"gdrdrv 2.5.2", "nvidia-fs 2.13.5"}
			c.Omitted = "nvidia-fs for 6.1.0-50-amd64 (open): error: <unknown> field"
		case 9:
			if n%22 == 9 {
				c.State, c.Why, c.Digest, c.Size, c.Created = Unknown, "the registry answered 503 Service Unavailable", "", 0, time.Time{}
			}
		}
		r.Cells = append(r.Cells, c)
	}
	seen := map[string]bool{}
	for _, b := range m.Impossible(matrix.Selection{All: true}) {
		id := b.System + " " + b.Driver + " " + b.Arch
		if seen[id] { // a second rule says no as well
			continue
		}
		seen[id] = true
		r.Cells = append(r.Cells, Cell{
			Pair: Pair{System: b.System, Driver: b.Driver, Arch: b.Arch, Tag: b.Driver + "-" + b.System}, State: Excluded, Why: b.Rule + ": " + b.Reason,
		})
	}
	return r
}
