package rehearse

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
)

// check is a check of nvidia-driver preflight -o json; docs/schema/preflight.schema.json.
type check struct {
	Name    string `json:"name"`
	Status  string `json:"status"`
	Finding string `json:"finding"`
	Fix     string `json:"fix"`
}

const signing = "module-signing"

// preflight asks the image what would stop it on this node.
func (r *rehearsal) preflight(ctx context.Context) (outcome, error) {
	if !r.image.ours {
		return skipped(notOurs), nil
	}
	asking := r.image
	asking.pod.Container.Command = []string{"nvidia-driver", "preflight", "-o", "json"}
	asking.pod.Container.Args = nil
	p, err := r.start(ctx, asking)
	if err != nil {
		return outcome{}, err
	}
	within, cancel := context.WithTimeoutCause(ctx, waitLimit, slowError(waitLimit))
	defer cancel()
	_, err = p.Wait(within)
	if err != nil {
		return r.unexpected(ctx, within, p, err)
	}
	output := p.Output()
	err = p.Kill(ctx)
	if err != nil {
		return outcome{}, err
	}
	var list struct{ Items []check }
	begin := strings.Index(output, "{\n") // the log is before it
	if begin < 0 || json.NewDecoder(strings.NewReader(output[begin:])).Decode(&list) != nil {
		r.absent = "preflight gave no answer"
		return failed("nvidia-driver preflight -o json printed no list of checks: %s", output), nil
	}
	r.checks = list.Items
	var blocking, warnings []string
	for _, c := range r.checks {
		switch c.Status {
		case "blocking":
			r.absent = "preflight stops it"
			if c.Name != signing {
				blocking = append(blocking, c.String())
			}
		case "warning":
			warnings = append(warnings, c.String())
		}
	}
	switch {
	case len(blocking) > 0:
		return failed("%s", strings.Join(blocking, "; ")), nil
	case len(warnings) > 0:
		return ok("the driver can start; %s", strings.Join(warnings, "; ")), nil
	}
	return ok("the driver can start"), nil
}

// String is the check as a sentence.
func (c check) String() string {
	text := c.Name + ": " + c.Finding
	if c.Fix != "" {
		text += " (fix: " + c.Fix + ")"
	}
	return text
}

// signatures says whether the kernel will accept the modules' signatures.
func (r *rehearsal) signatures(context.Context) (outcome, error) {
	i := slices.IndexFunc(r.checks, func(c check) bool { return c.Name == signing })
	if i < 0 {
		return skipped("preflight did not say"), nil
	}
	c := r.checks[i]
	switch c.Status {
	case "blocking":
		return failed("%s", c), nil
	case "skipped":
		return skipped("%s", c.Finding), nil
	}
	return ok("%s", c.Finding), nil
}
