package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/driver-container/driver-container/distros/fetch"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/packages"
	"github.com/driver-container/driver-container/images/progress"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/rootfs"
	"github.com/driver-container/driver-container/images/runfile"
)

// FabricLayout is part of the cache key of the fabric layer. Raise it when the same archives are to
// give other files.
const FabricLayout = 1

// component says what the archive of a component is called, where its files go and what it must
// have.
type component struct {
	archives []string // names in the top folder; NVIDIA renamed one of them
	// folder in the archive -> folder in the image; LIB is the library folder
	places map[string]string
	needs  []string // paths in the image; with a dot at the end, the beginning of one
}

var components = map[string]component{
	matrix.FabricManager: {
		[]string{"fabricmanager"},
		map[string]string{
			"bin":                   "usr/bin",
			"lib":                   "LIB",
			"etc":                   recipe.TopologyDir,
			"share/nvidia/nvswitch": recipe.TopologyDir,
		},
		[]string{
			"usr/bin/nv-fabricmanager",
			"LIB/libnvfm.so.1",
			recipe.TopologyDir + "/fabricmanager.cfg",
		},
	},
	matrix.NVLSM: {
		[]string{"nvlsm"},
		map[string]string{
			"sbin":               recipe.NVLSMDir + "/sbin",
			"lib":                recipe.NVLSMDir + "/lib",
			"share/nvidia/nvlsm": recipe.NVLSMConfigDir,
		},
		[]string{recipe.NVLSMDir + "/sbin/nvlsm", recipe.NVLSMConfigDir + "/nvlsm.conf"},
	},
	matrix.IMEX: {
		[]string{"imex", "nvidia-imex"},
		map[string]string{
			"bin":             "usr/bin",
			"usr/bin":         "usr/bin",
			"etc/nvidia-imex": "etc/nvidia-imex",
		},
		[]string{"usr/bin/nvidia-imex", "usr/bin/nvidia-imex-ctl"},
	},
	matrix.NSCQ: {
		[]string{"libnvidia_nscq"},
		map[string]string{"lib": "LIB"},
		[]string{"LIB/libnvidia-nscq.so."},
	},
	matrix.NVSDM: {
		[]string{"libnvsdm"},
		map[string]string{"lib": "LIB"},
		[]string{"LIB/libnvsdm.so."},
	},
}

// ReadFabric reads the components of a recipe from their archives. Their files are in the spool.
func ReadFabric(
	ctx context.Context,
	env packages.Env,
	r *recipe.Recipe,
	spool *rootfs.Spool,
	step *progress.Step,
) (*rootfs.Tree, error) {
	tree := rootfs.New(spool, nil)
	versions := map[string]string{}
	for _, c := range r.Fabric {
		file, err := ComponentFile(ctx, env.Fetch, c, r.Driver, step.File("download "+c.Name))
		if err != nil {
			return nil, err
		}
		if err := readComponent(ctx, env, file, c, r, tree); err != nil {
			return nil, fmt.Errorf("component %s: %s: %w", c.Name, c.File.URL, err)
		}
		versions[c.Name] = c.Version
	}
	if err := checkMachines(tree, rootfs.New(spool, nil), r); err != nil {
		return nil, err
	}
	if err := sonameLinks(tree, r.LibDir, recipe.NVLSMDir+"/lib"); err != nil {
		return nil, err
	}
	for _, c := range r.Fabric {
		for _, name := range components[c.Name].needs {
			name = strings.Replace(name, "LIB", r.LibDir, 1)
			isIt := func(e *rootfs.Entry) bool {
				return e.Path == name || strings.HasSuffix(name, ".") && strings.HasPrefix(e.Path, name)
			}
			if !slices.ContainsFunc(tree.All(), isIt) {
				return nil, fmt.Errorf("%w: component %s has no %s: is this a complete archive?", ErrContent, c.Name, name)
			}
		}
	}
	text, err := json.MarshalIndent(versions, "", "  ")
	if err != nil {
		return nil, err
	}
	return tree, tree.AddBytes(recipe.ComponentsFile, 0o644, append(text, '\n'))
}

// ComponentFile downloads the archive of a component. If it cannot be reached, the error says which
// file is needed, and how to do without.
func ComponentFile(
	ctx context.Context,
	client *fetch.Client,
	c recipe.Component,
	driver string,
	progress func(done, total int64),
) (string, error) {
	what := fmt.Sprintf(
		"component %s of driver %s (for machines with NVSwitch or NVLink)",
		c.Name,
		driver,
	)
	return download(ctx, client, c.File, progress, what, "build without it (--no-fabric)")
}

// readComponent puts the files of one component to their places. Files in other folders (headers,
// units of systemd) are left out.
func readComponent(
	ctx context.Context,
	env packages.Env,
	file string,
	c recipe.Component,
	r *recipe.Recipe,
	tree *rootfs.Tree,
) error {
	known, ok := components[c.Name]
	if !ok {
		return fmt.Errorf("%w: no such component is known", ErrContent)
	}
	licence := false
	take := func(m runfile.Member, content io.Reader) error {
		switch m.Name {
		case "LICENSE":
			licence = true
			return tree.AddFile(recipe.ComponentLicence(c.Name), 0o644, m.Size, content)
		case "third-party-notices.txt":
			return tree.AddFile(recipe.ComponentLicence(c.Name+"-third-party-notices"), 0o644, m.Size, content)
		}
		dir, ok := known.places[path.Dir(m.Name)]
		if !ok {
			return nil
		}
		name := path.Join(strings.Replace(dir, "LIB", r.LibDir, 1), path.Base(m.Name))
		switch {
		case m.Link != "" && m.Link != path.Base(m.Link):
			return fmt.Errorf(
				"%w: the link %s leads to %q, out of its folder",
				ErrContent,
				m.Name,
				m.Link,
			)
		case tree.Exists(name):
			return fmt.Errorf("%w: two components or folders have %s", ErrContent, name)
		case m.Link != "":
			return tree.AddLink(name, m.Link)
		}
		return tree.AddFile(name, m.Mode&0o755|0o444, m.Size, content)
	}
	err := fetch.Pinned(ctx, file, c.File, func(in io.Reader) error {
		return extractRedist(in, env.XZ.Open(ctx), known.archives, c.Version, r.Arch, take)
	})
	if err != nil {
		return err
	}
	if !licence {
		return fmt.Errorf("%w: it has no LICENSE", ErrContent)
	}
	return nil
}
