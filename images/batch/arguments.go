package batch

import (
	"strings"

	"github.com/driver-container/driver-container/images/recipe"
)

// Arguments gives the named flags with the values of the batch, in the order of the names. A flag without a
// value, and a switch that is off, is left out.
func (b *Batch) Arguments(flags ...string) (words []string) {
	k := &b.Kernels
	switches := map[string]bool{
		"--one-image": k.Together, "--with-toolchain": k.Toolchain, "--with-sources": k.Sources, "--kmm": k.KMM,
		"--allow-incompatible": b.Selection.AllowIncompatible, "--allow-missing-programs": b.Given.AllowMissing,
		"--insecure-registry": b.Given.Insecure, "--no-fabric": b.Selection.NoFabric, "--no-patches": b.Selection.NoPatches,
	}
	values := map[string][]string{
		"--matrix": {b.Given.MatrixFile}, "--lock": {b.Given.LockFile}, "--profile": {b.Given.Profile},
		"--base": {b.Plan.Base}, "--mirror": {recipe.PublicMirror(b.Plan.Mirror)}, "--repository": {b.Repository},
		"--kernel": k.Specs, "--kernel-from": k.From, "--kernel-flavour": k.Flavours, "--modules": {strings.Join(k.Modules, ",")},
		"--arch": {strings.Join(b.Selection.Archs, ",")}, "--flavour": b.Selection.Flavours,
		"--companions": {strings.Join(b.Selection.Companions, ",")}, "--ca": {b.Given.CAFile}, "--registry-mirror": b.Given.Mirrors,
	}
	for _, flag := range flags {
		if switches[flag] {
			words = append(words, flag)
		}
		for _, v := range values[flag] {
			if v != "" {
				words = append(words, flag, v)
			}
		}
	}
	return words
}

// lockCommand is the command that locks a section again with the flags of this call.
func (b *Batch) lockCommand(section string) string {
	words := b.Arguments("--matrix", "--lock", "--arch", "--base", "--mirror", "--flavour", "--kernel", "--kernel-from", "--kernel-flavour",
		"--one-image", "--with-toolchain", "--with-sources", "--kmm", "--allow-incompatible", "--no-fabric", "--no-patches", "--companions")
	for i, w := range words {
		words[i] = shellWord(w)
	}
	return strings.Join(append(append([]string{"driver-build", "lock"}, words...), "--update", section), " ")
}

// shellWord quotes a word that a shell would take apart.
func shellWord(s string) string {
	if strings.IndexFunc(s, func(r rune) bool {
		return !strings.ContainsRune("%+,-./:=@_~", r) && (r < '0' || r > '9' && r < 'A' || r > 'Z' && r < 'a' || r > 'z')
	}) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
