package buildkit

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/moby/buildkit/client/connhelper"
	_ "github.com/moby/buildkit/client/connhelper/dockercontainer"  // docker-container://
	_ "github.com/moby/buildkit/client/connhelper/kubepod"          // kube-pod://
	_ "github.com/moby/buildkit/client/connhelper/nerdctlcontainer" // nerdctl-container://
	_ "github.com/moby/buildkit/client/connhelper/podmancontainer"  // podman-container://
	_ "github.com/moby/buildkit/client/connhelper/ssh"              // ssh://
)

// form is what addresses of one scheme look like.
type form struct {
	usual   string // for people
	pattern string // of what stands after the slashes, without percent encoding
	program string // that is started here; "": a socket
	// a command for a person that asks the same daemon, with the name and parameters of the address
	try string
}

// Nothing in an address begins with "-": the programs would read it as an option. Ssh gives the
// socket to a shell on the other machine, so it has no character that means something to one.
const (
	container = `[a-zA-Z0-9][a-zA-Z0-9_.-]{0,252}`
	kubeName  = `[a-z0-9][-a-z0-9.]{0,252}`
	parameter = `[a-zA-Z0-9_][a-zA-Z0-9_.:/@ +=-]{0,252}`
	hostName  = `([a-zA-Z0-9_][a-zA-Z0-9_.-]{0,252}|\[[0-9a-fA-F:.]+\])`
)

var forms = map[string]form{
	"unix": {usual: "unix:///SOCKET", pattern: `/.+`},
	"tcp":  {usual: "tcp://HOST:PORT", pattern: `[^/?#@]+:[0-9]+(/.*)?`},
	"docker-container": {
		"docker-container://NAME?context=CONTEXT",
		container + `(\?context=` + parameter + `)?`,
		"docker",
		"docker $context exec $name buildctl debug workers",
	},
	"podman-container": {
		"podman-container://NAME",
		container,
		"podman",
		"podman exec $name buildctl debug workers",
	},
	"nerdctl-container": {
		"nerdctl-container://NAME?namespace=NAMESPACE",
		container + `(\?namespace=` + parameter + `)?`,
		"nerdctl",
		"nerdctl $namespace exec $name buildctl debug workers",
	},
	"kube-pod": {"kube-pod://POD?context=CONTEXT&namespace=NAMESPACE&container=CONTAINER",
		kubeName + `(\?` + kubeParameter + `(&` + kubeParameter + `){0,2})?`,
		"kubectl", "kubectl $context $namespace exec $container $name -- buildctl debug workers"},
	"ssh": {
		"ssh://USER@HOST:PORT/SOCKET",
		`([a-zA-Z0-9_][a-zA-Z0-9_.+-]{0,252}@)?` + hostName + `(:[0-9]+)?(/[a-zA-Z0-9_./-]{1,106})?`,
		"ssh",
		"ssh $address buildctl debug workers",
	},
}

const kubeParameter = `(context=` + parameter + `|(namespace|container)=` + kubeName + `)`

// Check finds mistakes in an address, and in the files of the TLS if the address needs it, without
// network. A program of the address that is not on this machine, such as kubectl, is
// runner.ErrUnavailable.
func Check(ctx context.Context, address string, t TLS) error {
	d, err := dial(ctx, Options{Address: address, TLS: t}) // it connects when it is first used
	if err != nil {
		return err
	}
	return d.Close()
}

// parse reads an address. The program is nil if the address needs none.
func parse(address string) (*url.URL, *program, error) {
	scheme, rest, _ := strings.Cut(address, "://")
	f, known := forms[scheme]
	if !known {
		var all []string
		for _, scheme := range slices.Sorted(maps.Keys(forms)) {
			all = append(all, forms[scheme].usual)
		}
		return nil, nil, fmt.Errorf(
			"the address %q of a buildkitd is of no known form: use %s",
			address,
			strings.Join(all, ", "),
		)
	}
	plain, err := url.PathUnescape(rest)
	u, wrong := url.Parse(address)
	if err != nil || wrong != nil || !regexp.MustCompile("^(?:"+f.pattern+")$").MatchString(plain) {
		return nil, nil, fmt.Errorf(
			"the address %q of a buildkitd is not of the form %s; names in it begin with a letter or a digit, and passwords do not belong into it",
			address,
			f.usual,
		)
	}
	if f.program == "" {
		return u, nil, nil
	}
	helper, err := connhelper.GetConnectionHelper(address)
	if err != nil {
		return nil, nil, fmt.Errorf(
			"the address %q of a buildkitd cannot be read: %w",
			address,
			err,
		)
	}
	return u, &program{
		address: address,
		name:    f.program,
		byHand:  f.byHand(u),
		connect: helper.ContextDialer,
	}, nil
}

func (f form) byHand(u *url.URL) string {
	words := os.Expand(f.try, func(word string) string {
		value := u.Query().Get(word)
		switch {
		case word == "address":
			return (&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}).String()
		case word == "name":
			return u.Hostname()
		case value != "":
			return "--" + word + "=" + value
		}
		return ""
	})
	return strings.Join(strings.Fields(words), " ")
}
