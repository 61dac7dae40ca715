package verify

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/driver-container/driver-container/distros"
	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/distros/escape"
	"github.com/driver-container/driver-container/images/recipe"
)

// WriteText writes the inspection for people, as a table.
func (i *Inspection) WriteText(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	guests := ""
	if i.VGPU != "" {
		guests = "for vGPU guests, licence: " + i.VGPU
	}
	rows := [][2]string{
		{"Digest", i.Digest},
		{"Driver", cmp.Or(i.Driver, "unknown")},
		{"vGPU", guests},
		{"System", cmp.Or(i.System, "unknown")},
		{"Arch", i.Arch},
		{"Profile", cmp.Or(i.Profile, "unknown")},
		{"Flavours", strings.Join(i.Flavours, ", ")},
		{"Command", strings.Join(i.Command, " ")},
		{"Size", megabytes(i.Size)},
		{"Base", i.Base}, {"Created", i.Created}, {"Content", i.Content},
		{"Companions", i.Labels[recipe.LabelCompanions]},
		{"Left out", i.Labels[recipe.LabelOmitted]},
	}
	if i.Deep {
		rows = append(rows, i.files()...)
	} else {
		rows = append(rows, [2]string{"Patched", i.Labels[recipe.LabelPatches]})
		if len(i.Kernels) > 0 {
			how := "compiled for "
			signer := i.Signer
			packages := i.Labels[recipe.LabelModulePackages]
			if packages != "" {
				how = "for "
				signer = "the distribution: " + packages
			}
			rows = append(rows, [2]string{"Modules", how + strings.Join(i.Kernels, ", ")},
				[2]string{"Signer", cmp.Or(signer, "none: the modules are unsigned")})
		}
	}
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", row[0], escape.Line(row[1]))
		}
	}
	for n, l := range i.Layers {
		fmt.Fprintf(
			w,
			"Layer %d\t%s\t%s\t%s\n",
			n,
			l.Digest,
			megabytes(l.Size),
			escape.Line(l.CreatedBy),
		)
	}
	return w.Flush()
}

// files are rows about what the layers hold.
func (i *Inspection) files() [][2]string {
	var components []string
	for _, name := range slices.Sorted(maps.Keys(i.Components)) {
		components = append(components, name+" "+i.Components[name])
	}
	rows := [][2]string{
		{"Libraries", fmt.Sprint(len(i.Libraries))},
		{"Programs", cmp.Or(strings.Join(i.Programs, " "), " ")},
		{"Firmware", cmp.Or(strings.Join(i.Firmware, " "), " ")},
		{"Packages", fmt.Sprint(len(i.Packages))},
		{"Components", strings.Join(components, ", ")}, {"Lacks", strings.Join(i.Lacks, " ")},
	}
	if d := i.Description; d != nil {
		rows = append(rows, [2]string{"Kernels", i.kernels(d)})
		for _, p := range d.Patches {
			rows = append(
				rows,
				[2]string{
					"Patched",
					fmt.Sprintf(
						"%s sources: %s, sha256:%s",
						strings.Join(p.Flavours, " and "),
						p.Name,
						p.SHA256,
					),
				},
			)
		}
	}
	for _, m := range i.Modules {
		rows = append(rows, [2]string{"Modules", m.Kernel + " " + m.Flavour + ": " + signedBy(m)})
	}
	return rows
}

// kernels are those that the image drives. Without sources it drives those alone that it has
// modules for.
func (i *Inspection) kernels(d *driverinfo.Description) string {
	var only []string
	for _, m := range i.Modules {
		only = append(only, m.Kernel)
	}
	if !d.Toolchain && len(only) > 0 {
		slices.Sort(only)
		return strings.Join(slices.Compact(only), ", ") + " only"
	}
	text := "any"
	switch {
	case d.Kernel.Min != "" && d.Kernel.Max != "":
		text = d.Kernel.Min + " to " + d.Kernel.Max
	case d.Kernel.Min != "":
		text = "from " + d.Kernel.Min
	case d.Kernel.Max != "":
		text = "up to " + d.Kernel.Max
	}
	if len(d.Overridden) > 0 {
		text += ", overridden: " + strings.Join(d.Overridden, ", ")
	}
	return text
}

// signedBy is a line about who signed a set of modules.
func signedBy(m ModuleSet) string {
	if m.Damage != "" {
		return "damaged: " + m.Damage
	}
	how := ""
	for _, i := range m.Modules {
		text := "unsigned"
		if i.Hash != "" {
			text = fmt.Sprintf("signed by %s with %s, key %s", i.Signer, i.Hash, i.KeyID)
			key, ofDistribution := distros.FindModuleKey(i.Signer)
			if ofDistribution {
				text += ", by the name of a key that is built into the kernels of " + key.System
			}
		}
		if i.Hash != "" && m.Certificate != "" {
			text += ", certificate " + m.Certificate
		}
		how = cmp.Or(how, text)
		if how != text {
			how = "signed differently (-o json shows how)"
			break
		}
	}
	return fmt.Sprintf("%d modules, %s", len(m.Modules), cmp.Or(how, "unsigned"))
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
