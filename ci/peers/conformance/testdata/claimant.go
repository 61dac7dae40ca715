// Command claimant is a kubelet that prepares one claim: it calls the socket of a DRA driver's plugin, and
// shows its answer. It is built in the checkout of NVIDIA's DRA driver, which has the modules.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
)

func main() {
	socket, claim := os.Args[1], &dra.Claim{Namespace: os.Args[2], Name: os.Args[3], Uid: os.Args[4]}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := grpc.NewClient("unix:"+socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	must(err)
	p := dra.NewDRAPluginClient(c)
	prepared, err := p.NodePrepareResources(ctx, &dra.NodePrepareResourcesRequest{Claims: []*dra.Claim{claim}})
	must(err)
	spec, _ := os.ReadDir(os.Args[5])
	for _, f := range spec {
		text, err := os.ReadFile(os.Args[5] + "/" + f.Name())
		must(err)
		fmt.Println(string(text))
	}
	released, err := p.NodeUnprepareResources(ctx, &dra.NodeUnprepareResourcesRequest{Claims: []*dra.Claim{claim}})
	must(err)
	for _, v := range []any{prepared, released} {
		text, _ := json.Marshal(v)
		fmt.Println(string(text))
	}
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
