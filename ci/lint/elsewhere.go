package lint

// Names are the task pages.
var Names = []string{"install", "build", "kernels", "trust", "fleet", "operate", "fix", "hardware"}

// logIn writes the file that docker login writes.
const logIn = `mkdir -p "$DOCKER_CONFIG" && ` +
	`printf '{"auths":{"%s":{"auth":"%s"}}}' "$ORIGIN" "$(printf 'builder:%s' "$(cat password)" | base64 -w0)" >"$DOCKER_CONFIG/config.json"`

// substitutions are what the tests change in commands, in this order. The registries are those of
// the test, with TLS, and one of them with a password.
var substitutions = [][2]string{
	// The tests have no Docker, and no terminal to ask for the password.
	{"docker login registry.example.com -u USER", logIn},
	// A system and drivers that Debian has: NVIDIA's archives cannot be reached from where the
	// tests run.
	{"ubuntu22.04", "debian12"},
	{"--os ubuntu24.04 --driver 580.178.04", "--os debian12 --driver 470.256.02"},
	{"580.178.04", "535.261.03"},
	{"595.99.02", "470.256.02"},
	{"registry.example.com", "$ORIGIN"},
	{"registry.site", "$SITE"},
	// The two newest kernels that the repository has.
	{"5.15.0-163-generic", "$OLDER_KERNEL"},
	{"5.15.0-164-generic", "$KERNEL"},
	// A pod of a user of the node.
	{"kubectl delete pod POD", "kubectl delete pod train-0"},
	{" NODE ", " node-1 "},
	{"spec.nodeName=NODE", "spec.nodeName=node-1"},
	{" NS ", " nvidia-driver "},
	{" POD", " $POD"},
}
