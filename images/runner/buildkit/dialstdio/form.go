package dialstdio

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// form is what the addresses of one scheme consist of.
type form struct {
	program    string
	name       *regexp.Regexp            // of what stands after the slashes
	parameters map[string]*regexp.Regexp // what may stand after "?"
	user, path *regexp.Regexp            // nil: the address has none
	port       bool
	by         string // the right way to say what is in a path, for an error
	command    func(u *url.URL) []string
}

// Nothing in an address begins with "-": the programs would read it as an option. Ssh gives the socket to a
// shell on the other machine, so it has no character that means something to one.
var (
	kubeName   = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	container  = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,252}$`)
	remoteName = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.:/@ +=-]{0,252}$`)
	sshHost    = regexp.MustCompile(`^[a-zA-Z0-9_:][a-zA-Z0-9_.:-]{0,252}$`)
	sshUser    = regexp.MustCompile(`^[a-zA-Z0-9_][a-zA-Z0-9_.@+-]{0,252}$`)
	sshSocket  = regexp.MustCompile(`^/[a-zA-Z0-9_./-]{1,106}$`)
)

var forms = map[string]form{
	"kube-pod": {
		program: "kubectl", name: kubeName, parameters: map[string]*regexp.Regexp{"context": remoteName, "namespace": kubeName, "container": kubeName},
		by: "kube-pod://POD?namespace=NAMESPACE", command: func(u *url.URL) []string {
			args := append([]string{"kubectl"}, given(u, "context", "namespace")...)
			return append(append(append(args, "exec", u.Hostname()), given(u, "container")...), "--")
		},
	},
	"docker-container":  containers("docker", "context"),
	"podman-container":  containers("podman", ""),
	"nerdctl-container": containers("nerdctl", "namespace"),
	"ssh": {
		program: "ssh", name: sshHost, user: sshUser, path: sshSocket, port: true,
		command: func(u *url.URL) []string {
			args := []string{"ssh"}
			if u.User != nil {
				args = append(args, "-l", u.User.Username())
			}
			if u.Port() != "" {
				args = append(args, "-p", u.Port())
			}
			return append(args, "--", u.Hostname())
		},
	},
}

func containers(program, parameter string) form {
	f := form{program: program, name: container, command: func(u *url.URL) []string {
		args := []string{program}
		if parameter != "" {
			args = append(args, given(u, parameter)...)
		}
		return append(args, "exec", u.Hostname())
	}}
	if parameter != "" {
		f.parameters = map[string]*regexp.Regexp{parameter: remoteName}
	}
	return f
}

// given returns the parameters of an address as options.
func given(u *url.URL, names ...string) (args []string) {
	for _, name := range names {
		if value := u.Query().Get(name); value != "" {
			args = append(args, "--"+name+"="+value)
		}
	}
	return args
}

// check finds mistakes in an address, and returns a command that asks the same daemon as the connection does.
func (f form) check(u *url.URL) (try []string, err error) {
	if !f.name.MatchString(u.Hostname()) {
		return nil, fmt.Errorf("%q is no name for %s", u.Hostname(), f.program)
	}
	if err := f.checkRest(u); err != nil {
		return nil, err
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("the part after %q cannot be read: %w", "?", err)
	}
	for name, values := range query {
		pattern, known := f.parameters[name]
		switch {
		case !known && len(f.parameters) == 0:
			return nil, fmt.Errorf("%s takes nothing after %q", u.Scheme+"://", "?")
		case !known:
			return nil, fmt.Errorf("parameter %q is not known: %s has %s", name, u.Scheme+"://", strings.Join(f.names(), ", "))
		case len(values) > 1:
			return nil, fmt.Errorf("parameter %s is given twice", name)
		case !pattern.MatchString(values[0]):
			return nil, fmt.Errorf("%q is no %s for %s", values[0], name, f.program)
		}
	}
	return append(f.command(u), "buildctl", "debug", "workers"), nil
}

// checkRest looks at what is neither name nor parameters.
func (f form) checkRest(u *url.URL) error {
	if u.User != nil {
		_, secret := u.User.Password()
		switch {
		case secret:
			return errors.New("a password does not belong into an address: other users of this machine can read it")
		case f.user == nil || !f.user.MatchString(u.User.Username()):
			return fmt.Errorf("%q is no user for %s", u.User.Username(), f.program)
		}
	}
	switch {
	case u.Port() != "" && !f.port:
		return fmt.Errorf("%s needs no port: it runs buildctl beside the daemon", u.Scheme+"://")
	case u.Path != "" && f.path == nil && f.by != "":
		return fmt.Errorf("%s has no path: write %s", u.Scheme+"://", f.by)
	case u.Path != "" && f.path == nil:
		return fmt.Errorf("%s has no path", u.Scheme+"://")
	case u.Path != "" && !f.path.MatchString(u.Path):
		return fmt.Errorf("%q is no path of a socket: at most 107 letters, digits and _./-", u.Path)
	case u.Fragment != "":
		return fmt.Errorf("%q has no meaning in it", "#"+u.Fragment)
	}
	return nil
}

func (f form) names() (list []string) {
	for name := range f.parameters {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
