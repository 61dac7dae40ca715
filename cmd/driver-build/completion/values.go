package completion

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/driver-container/driver-container/images/advisory"
	"github.com/driver-container/driver-container/images/batch"
	"github.com/driver-container/driver-container/images/cuda"
	"github.com/driver-container/driver-container/images/matrix"
	"github.com/driver-container/driver-container/images/recipe"
	"github.com/driver-container/driver-container/images/sbom"
	"github.com/driver-container/driver-container/images/signature"
)

// values are the completions of flags, by "--flag", or "command --flag" where a command has values of its
// own. Flags that are missing here take files if their help says so.
var values = map[string]cobra.CompletionFunc{
	"--os":                   systems,
	"--driver":               drivers,
	"--arch":                 words(batch.Archs()...),
	"--deny":                 words(append(advisory.Kinds(), "all")...),
	"--cuda":                 cudaReleases,
	"--flavour":              words(matrix.Proprietary, matrix.Open),
	"--profile":              words(matrix.Profiles()...),
	"--kernel":               words("latest", "all"),
	"verify --kernel":        cobra.NoFileCompletions,
	"--builder":              words("auto", "chroot", "buildkit", "buildkit="),
	"--compression":          words(string(recipe.Gzip), string(recipe.Zstd)),
	"--signature-format":     words(string(signature.Legacy), string(signature.Bundle), string(signature.Both)),
	"--sbom":                 words(string(sbom.SPDX), string(sbom.CycloneDX)),
	"attest --sbom":          files,
	"--provenance":           words("driver-build", "ci"),
	"--output":               local("oci:", "oci-archive:", "docker-archive:"),
	"bundle create --output": files,
	"--base":                 local("oci:", "oci-archive:", "docker-archive:"),
	"bundle create --base":   cobra.NoFileCompletions,
	"--format":               words("table", "json"),
	"list --format":          words("table", "json", "yaml"),
	"plan --format":          words("table", "json", "github", "gitlab"),
	"fleet --format":         words("table", "json", "github", "gitlab", "values"),
	"sbom --format":          words(string(sbom.SPDX), string(sbom.CycloneDX)),
	"--only":                 words("base"),
	"--progress":             words("auto", "tty", "plain", "json", "quiet"),
}

// image completes an image on this machine.
var image = local("oci:", "oci-archive:", "docker-archive:")

// arguments are the completions of what stands behind a command.
var arguments = map[string]cobra.CompletionFunc{
	"inspect": image, "verify": image, "sbom": image, "sign": image, "attest": image, "push": image,
	"bundle create": image, "bundle verify": files, "bundle list": files, "bundle import": files,
	"drivers": branches, "fleet": files, "gpus": gpus,
}

// cudaReleases offers the releases of CUDA.
func cudaReleases(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	var all []string
	for _, r := range cuda.Releases() {
		all = append(all, r.Version.String())
	}
	return beginning(begun, all), cobra.ShellCompDirectiveNoFileComp
}

func files(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// maxEntries bounds how many files are offered behind a prefix.
const maxEntries = 1000

// local offers prefixes, and behind one of them the files there are. Shells do not find them, because of the
// prefix.
func local(prefixes ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
		kind, path, ok := strings.Cut(begun, ":")
		if !ok || len(beginning(kind+":", prefixes)) == 0 {
			return beginning(begun, prefixes), directive
		}
		dir, name := filepath.Split(path)
		entries, _ := os.ReadDir(cmp.Or(dir, ".")) // a folder that cannot be read has nothing to offer
		var all []string
		for _, e := range entries[:min(len(entries), maxEntries)] {
			switch {
			case !strings.HasPrefix(e.Name(), name), name == "" && strings.HasPrefix(e.Name(), "."):
			case e.IsDir():
				all = append(all, kind+":"+dir+e.Name()+"/")
			case kind != "oci":
				all = append(all, kind+":"+dir+e.Name())
			}
		}
		return all, directive
	}
}
