package documents

import (
	"cmp"
	"regexp"
	"strings"
)

// CI is what a CI system says of the job that runs.
type CI struct {
	BuilderID    string   // the workflow or the runner that the platform vouches for
	InvocationID string   // URL of the run
	Config       Resource // the commit that the job has checked out
}

// FromCI reads the environment of a job of GitHub Actions or GitLab CI. ok is false outside of
// both, and where a variable is missing that the id needs. The variables are documented in GitHub's
// "Variables reference" and GitLab's "Predefined CI/CD variables".
//
// Anyone who controls the environment can set them: they are a claim that only a signature of the
// platform proves.
func FromCI(getenv func(string) string) (ci CI, ok bool) {
	switch {
	case getenv("GITHUB_ACTIONS") == "true":
		server := strings.TrimSuffix(getenv("GITHUB_SERVER_URL"), "/")
		repository := getenv("GITHUB_REPOSITORY")
		workflow := getenv("GITHUB_WORKFLOW_REF")
		run := getenv("GITHUB_RUN_ID")
		ci.BuilderID = server + "/" + workflow
		ci.InvocationID = server + "/" + repository + "/actions/runs/" + run + "/attempts/" + cmp.Or(
			getenv("GITHUB_RUN_ATTEMPT"),
			"1",
		)
		ci.Config = commit(server+"/"+repository, getenv("GITHUB_REF"), getenv("GITHUB_SHA"))
		return ci, server != "" && repository != "" && workflow != "" && run != ""
	case getenv("GITLAB_CI") == "true":
		project := strings.TrimSuffix(getenv("CI_PROJECT_URL"), "/")
		runner := getenv("CI_RUNNER_ID")
		ci.BuilderID = project + "/-/runners/" + runner
		ci.InvocationID = getenv("CI_JOB_URL")
		ref := "refs/heads/" + getenv("CI_COMMIT_REF_NAME")
		if tag := getenv("CI_COMMIT_TAG"); tag != "" {
			ref = "refs/tags/" + tag
		}
		ci.Config = commit(project, ref, getenv("CI_COMMIT_SHA"))
		return ci, project != "" && runner != "" && ci.InvocationID != ""
	}
	return CI{}, false
}

var commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

func commit(repository, ref, id string) Resource {
	d := Resource{URI: strings.TrimSuffix("git+"+repository+"@"+ref, "@")}
	if commitID.MatchString(id) {
		d.Digest = map[string]string{"gitCommit": id}
	}
	return d
}
