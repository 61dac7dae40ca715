package documents

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// CI is what a CI system says of the job that runs.
type CI struct {
	BuilderID    string   // the workflow or the runner that the platform vouches for
	InvocationID string   // URL of the run
	Config       Resource // the commit that the job has checked out
}

// FromCI reads the environment of a job of GitHub Actions or GitLab CI. It is an error outside of
// both, and if variables are missing that the ids need; it names them. They are documented in
// GitHub's "Variables reference" and GitLab's "Predefined CI/CD variables".
//
// Anyone who controls the environment can set them: they are a claim that only a signature of the
// platform proves.
func FromCI(getenv func(string) string) (CI, error) {
	var ci CI
	var missing []string
	required := func(name string) string {
		value := strings.TrimSuffix(getenv(name), "/")
		if value == "" {
			missing = append(missing, name)
		}
		return value
	}
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		server := required("GITHUB_SERVER_URL")
		repository := server + "/" + required("GITHUB_REPOSITORY")
		attempt := cmp.Or(getenv("GITHUB_RUN_ATTEMPT"), "1")
		ci.BuilderID = server + "/" + required("GITHUB_WORKFLOW_REF")
		ci.InvocationID = repository + "/actions/runs/" + required("GITHUB_RUN_ID") + "/attempts/" + attempt
		ci.Config = commit(repository, getenv("GITHUB_REF"), getenv("GITHUB_SHA"))
	case getenv("GITLAB_CI") == "true":
		project := required("CI_PROJECT_URL")
		ci.BuilderID = project + "/-/runners/" + required("CI_RUNNER_ID")
		ci.InvocationID = required("CI_JOB_URL")
		ref := "refs/heads/" + getenv("CI_COMMIT_REF_NAME")
		if tag := getenv("CI_COMMIT_TAG"); tag != "" {
			ref = "refs/tags/" + tag
		}
		ci.Config = commit(project, ref, getenv("CI_COMMIT_SHA"))
	default:
		return CI{}, errors.New("the environment is not that of a job of GitHub Actions or GitLab CI")
	}
	if missing != nil {
		return CI{}, fmt.Errorf("the environment of the job lacks %s", strings.Join(missing, ", "))
	}
	return ci, nil
}

var commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

func commit(repository, ref, id string) Resource {
	d := Resource{URI: strings.TrimSuffix("git+"+repository+"@"+ref, "@")}
	if commitID.MatchString(id) {
		d.Digest = map[string]string{"gitCommit": id}
	}
	return d
}
