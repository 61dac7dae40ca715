package buildkit

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
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

// form is what addresses of one scheme consist of.
type form struct {
	program    string   // that is started here; "": a socket
	name       string   // pattern of what stands after the slashes; "": nothing does
	parameters []string // that may stand after "?"
	user, port bool
	path       string // pattern; "": the address has none
}

// Nothing in an address begins with "-": the programs would read it as an option. Ssh gives the socket to a
// shell on the other machine, so it has no character that means something to one.
const (
	kubeName  = `[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?`
	container = `[a-zA-Z0-9][a-zA-Z0-9_.-]{0,252}`
	hostName  = `[a-zA-Z0-9_:][a-zA-Z0-9_.:-]{0,252}`
	parameter = `[a-zA-Z0-9_][a-zA-Z0-9_.:/@ +=-]{0,252}`
	socket    = `/[a-zA-Z0-9_./-]{1,106}`
)

var forms = map[string]form{
	"unix":              {path: `/.+`},
	"tcp":               {name: `.+`, port: true, path: ".*"},
	"docker-container":  {program: "docker", name: container, parameters: []string{"context"}},
	"podman-container":  {program: "podman", name: container},
	"nerdctl-container": {program: "nerdctl", name: container, parameters: []string{"namespace"}},
	"kube-pod":          {program: "kubectl", name: kubeName, parameters: []string{"context", "namespace", "container"}},
	"ssh":               {program: "ssh", name: hostName, user: true, port: true, path: socket},
}

// Check finds mistakes in an address, and in the files of the TLS if the address needs it, without network.
func Check(address string, t TLS) error {
	u, _, err := parse(address)
	if err == nil && u.Scheme == "tcp" {
		err = t.check()
	}
	return err
}

// FindProgram looks for the program that an address needs on this machine, such as kubectl.
func FindProgram(address string) error {
	_, p, err := parse(address)
	if err != nil {
		return err
	}
	return p.find()
}

// parse reads an address. The program is nil if the address needs none.
func parse(address string) (*url.URL, *program, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, nil, fmt.Errorf("the address %q of a buildkitd cannot be read: %w", address, errors.Unwrap(err))
	}
	f, known := forms[u.Scheme]
	if !known {
		return nil, nil, fmt.Errorf("the address %q of a buildkitd is of no known form: "+
			"use unix:///SOCKET, tcp://HOST:PORT, docker-container://NAME, podman-container://NAME, nerdctl-container://NAME, kube-pod://POD or ssh://USER@HOST", address)
	}
	if err = f.check(u); err == nil {
		err = f.checkParameters(u)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("the address %q of a buildkitd: %w", address, err)
	}
	if f.program == "" {
		return u, nil, nil
	}
	helper, err := connhelper.GetConnectionHelper(address)
	if err != nil {
		return nil, nil, fmt.Errorf("the address %q of a buildkitd cannot be read: %w", address, err)
	}
	return u, &program{address: address, name: f.program, byHand: f.byHand(u), connect: helper.ContextDialer}, nil
}

func is(pattern, text string) bool {
	return regexp.MustCompile("^(?:" + pattern + ")$").MatchString(text)
}

// check looks at all parts of an address but its parameters.
func (f form) check(u *url.URL) error {
	scheme := u.Scheme + "://"
	_, secret := u.User.Password()
	switch {
	case f.name == "" && u.Host != "" || u.Scheme == "unix" && !is(f.path, u.Path):
		return errors.New("it has no absolute path: write unix:///run/buildkit/buildkitd.sock")
	case f.name != "" && u.Hostname() == "":
		return fmt.Errorf("it has no name after %s", scheme)
	case f.name != "" && !is(f.name, u.Hostname()):
		return fmt.Errorf("%q is no name for %s", u.Hostname(), f.program)
	case u.Scheme == "tcp" && u.Port() == "":
		return errors.New("it has no port: 1234 is the usual one")
	case secret:
		return errors.New("a password does not belong into an address: other users of this machine can read it")
	case u.User != nil && f.program != "" && (!f.user || !is(`[a-zA-Z0-9_][a-zA-Z0-9_.@+-]{0,252}`, u.User.Username())):
		return fmt.Errorf("%q is no user for %s", u.User.Username(), f.program)
	case u.Port() != "" && !f.port:
		return fmt.Errorf("%s needs no port: it runs buildctl beside the daemon", scheme)
	case u.Path != "" && u.Scheme == "kube-pod":
		return fmt.Errorf("%s has no path: write kube-pod://POD?namespace=NAMESPACE", scheme)
	case u.Path != "" && f.path == "":
		return fmt.Errorf("%s has no path", scheme)
	case u.Path != "" && !is(f.path, u.Path):
		return fmt.Errorf("%q is no path of a socket: at most 107 letters, digits and _./-", u.Path)
	case u.Fragment != "":
		return fmt.Errorf("%q has no meaning in it", "#"+u.Fragment)
	}
	return nil
}

func (f form) checkParameters(u *url.URL) error {
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return fmt.Errorf("the part after %q cannot be read: %w", "?", err)
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		pattern := parameter
		if f.program == "kubectl" && name != "context" {
			pattern = kubeName
		}
		switch values := query[name]; {
		case len(f.parameters) == 0:
			return fmt.Errorf("%s takes nothing after %q", u.Scheme+"://", "?")
		case !slices.Contains(f.parameters, name):
			return fmt.Errorf("parameter %q is not known: %s has %s", name, u.Scheme+"://", strings.Join(f.parameters, ", "))
		case len(values) > 1:
			return fmt.Errorf("parameter %s is given twice", name)
		case !is(pattern, values[0]):
			return fmt.Errorf("%q is no %s for %s", values[0], name, f.program)
		}
	}
	return nil
}

// byHand is a command for a person that asks the same daemon as the connection does.
func (f form) byHand(u *url.URL) string {
	words, query := []string{f.program}, u.Query()
	option := func(name string) {
		if value := query.Get(name); value != "" {
			words = append(words, "--"+name+"="+value)
		}
	}
	option("context")
	option("namespace")
	switch {
	case f.program == "ssh" && u.User != nil:
		words = append(words, "-l", u.User.Username())
	case f.program != "ssh":
		words = append(words, "exec")
	}
	if u.Port() != "" {
		words = append(words, "-p", u.Port())
	}
	option("container")
	words = append(words, u.Hostname())
	if f.program == "kubectl" {
		words = append(words, "--")
	}
	return strings.Join(append(words, "buildctl", "debug", "workers"), " ")
}
