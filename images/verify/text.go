package verify

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/driver-container/driver-container/distros/driverinfo"
	"github.com/driver-container/driver-container/images/recipe"
)

// WriteText writes the inspection for people, as a table.
func (i *Inspection) WriteText(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 8, 2, ' ', 0)
	guests := ""
	if i.VGPU != "" {
		guests = "for vGPU guests, licence: " + i.VGPU
	}
	for _, row := range [][2]string{
		{"Digest", i.Digest}, {"Driver", cmp.Or(i.Driver, "unknown")}, {"vGPU", guests}, {"System", cmp.Or(i.System, "unknown")}, {"Arch", i.Arch}, {"Profile", cmp.Or(i.Profile, "unknown")},
		{"Flavours", strings.Join(i.Flavours, ", ")}, {"Command", strings.Join(i.Command, " ")}, {"Size", megabytes(i.Size)},
		{"Base", i.Base}, {"Created", i.Created}, {"Content", i.Content},
		{"Companions", i.Labels[recipe.LabelCompanions]}, {"Left out", i.Labels[recipe.LabelOmitted]},
	} {
		if row[1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", row[0], row[1])
		}
	}
	if i.Deep {
		i.writeFiles(w)
	} else {
		i.writeModules(w)
	}
	for n, l := range i.Layers {
		fmt.Fprintf(w, "Layer %d\t%s\t%s\t%s\n", n, l.Digest, megabytes(l.Size), l.CreatedBy)
	}
	return w.Flush()
}

// writeModules writes what the labels say of patches and compiled modules.
func (i *Inspection) writeModules(w io.Writer) {
	if patches := i.Labels[recipe.LabelPatches]; patches != "" {
		fmt.Fprintf(w, "Patched\t%s\n", patches)
	}
	if len(i.Kernels) > 0 {
		fmt.Fprintf(w, "Modules\tcompiled for %s\n", strings.Join(i.Kernels, ", "))
		fmt.Fprintf(w, "Signer\t%s\n", cmp.Or(i.Signer, "none: the modules are unsigned"))
	}
}

// writeFiles writes what the layers hold.
func (i *Inspection) writeFiles(w io.Writer) {
	fmt.Fprintf(w, "Libraries\t%d\nPrograms\t%s\nFirmware\t%s\nPackages\t%d\n",
		len(i.Libraries), strings.Join(i.Programs, " "), strings.Join(i.Firmware, " "), len(i.Packages))
	var components []string
	for _, name := range slices.Sorted(maps.Keys(i.Components)) {
		components = append(components, name+" "+i.Components[name])
	}
	if len(components) > 0 {
		fmt.Fprintf(w, "Components\t%s\n", strings.Join(components, ", "))
	}
	if len(i.Lacks) > 0 {
		fmt.Fprintf(w, "Lacks\t%s\n", strings.Join(i.Lacks, " "))
	}
	if d := i.Description; d != nil {
		fmt.Fprintf(w, "Kernels\t%s\n", i.kernels(d))
		for _, p := range d.Patches {
			fmt.Fprintf(w, "Patched\t%s sources: %s, sha256:%s\n", strings.Join(p.Flavours, " and "), p.Name, p.SHA256)
		}
	}
	for _, m := range i.Modules {
		fmt.Fprintf(w, "Modules\t%s %s: %s\n", m.Kernel, m.Flavour, signedBy(m))
	}
}

// kernels are those that the image drives. Without sources it drives those alone that it has modules for.
func (i *Inspection) kernels(d *driverinfo.Description) string {
	var only []string
	for _, m := range i.Modules {
		only = append(only, m.Kernel)
	}
	if d.Toolchain || len(only) == 0 {
		return kernelRange(d)
	}
	slices.Sort(only)
	return strings.Join(slices.Compact(only), ", ") + " only"
}

// kernelRange is the range that the modules compile on: "3.10 to 6.16".
func kernelRange(d *driverinfo.Description) string {
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
	first, same := ModuleInfo{}, true
	for n, i := range m.Modules {
		if n == 0 {
			first = i
		}
		same = same && i.Signer == first.Signer && i.Hash == first.Hash && i.KeyID == first.KeyID
	}
	switch {
	case !same:
		return fmt.Sprintf("%d modules, signed differently (-o json shows how)", len(m.Modules))
	case first.Hash == "":
		return fmt.Sprintf("%d modules, unsigned", len(m.Modules))
	}
	text := fmt.Sprintf("%d modules, signed by %s with %s, key %s", len(m.Modules), first.Signer, first.Hash, first.KeyID)
	if m.Certificate != "" {
		text += ", certificate " + m.Certificate
	}
	return text
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/1e6) }
