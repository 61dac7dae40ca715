package control

import (
	"encoding/json"
	"fmt"
	"os"
)

// Kubeconfig writes a self-contained kubeconfig to path (mode 0600): the API server at the URL, the
// authority, and a new client certificate for the user in these groups. NAME.crt and NAME.key stay in the
// folder as well.
func (p *PKI) Kubeconfig(path, server, name, user string, groups ...string) error {
	if err := p.Client(name, user, groups...); err != nil {
		return err
	}
	return p.kubeconfig(path, server, name, nil)
}

// kubeconfig returns JSON, which every YAML reader takes; bytes become base64 as the format requires. as is
// the impersonated identity.
func (p *PKI) kubeconfig(path, server, name string, as *identity) error {
	var files [3][]byte
	for i, file := range []string{"ca.crt", name + ".crt", name + ".key"} {
		data, err := os.ReadFile(p.Path(file))
		if err != nil {
			return fmt.Errorf("kubeconfig of %s: %w", name, err)
		}
		files[i] = data
	}
	user := map[string]any{"client-certificate-data": files[1], "client-key-data": files[2]}
	if as != nil {
		user["as"], user["as-groups"] = as.user, as.groups
	}
	type object = map[string]any
	data, err := json.MarshalIndent(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "test",
		"clusters": []object{{"name": "test", "cluster": object{"server": server, "certificate-authority-data": files[0]}}},
		"users":    []object{{"name": "test", "user": user}},
		"contexts": []object{{"name": "test", "context": object{"cluster": "test", "user": "test"}}},
	}, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o600)
}

// identity is the user and the groups with which the API server shall treat a request.
type identity struct {
	user   string
	groups []string
}
