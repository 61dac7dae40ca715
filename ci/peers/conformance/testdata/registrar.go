// Command registrar is a kubelet's registration socket: it takes a device plugin's registration, lists its
// devices and allocates one. It is built in the checkout of NVIDIA's device plugin, which has the modules.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	v1beta1 "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

type kubelet struct {
	v1beta1.UnimplementedRegistrationServer
	requests chan *v1beta1.RegisterRequest
}

func (k kubelet) Register(_ context.Context, r *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	k.requests <- r
	return &v1beta1.Empty{}, nil
}

func main() {
	socket := os.Args[1]
	os.Remove(socket)
	l, err := net.Listen("unix", socket)
	must(err)
	k := kubelet{requests: make(chan *v1beta1.RegisterRequest, 9)}
	s := grpc.NewServer()
	v1beta1.RegisterRegistrationServer(s, k)
	go s.Serve(l)
	select {
	case r := <-k.requests:
		show("registered", r)
		c, err := grpc.NewClient("unix:"+filepath.Join(filepath.Dir(socket), r.Endpoint), grpc.WithTransportCredentials(insecure.NewCredentials()))
		must(err)
		p := v1beta1.NewDevicePluginClient(c)
		// it starts anew when it sees that the kubelet's socket is a new one
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		w, err := p.ListAndWatch(ctx, &v1beta1.Empty{}, grpc.WaitForReady(true))
		must(err)
		list, err := w.Recv()
		must(err)
		show("devices", list)
		a, err := p.Allocate(ctx, &v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{{DevicesIds: []string{list.Devices[0].ID}}}}, grpc.WaitForReady(true))
		must(err)
		show("allocated", a)
	case <-time.After(60 * time.Second):
		fmt.Println("no registration")
		os.Exit(1)
	}
}

func show(what string, v any) { t, _ := json.Marshal(v); fmt.Println(what, string(t)) }
func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}
