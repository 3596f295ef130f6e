// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	nodeipamclient "github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

var suite = stage.NewSuite("nodeipam", "../../..")

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// env is the lab with a node on which another CNI plugin attaches the pods.
type env struct {
	*stage.Env
	// other has the pods of Alioth's own plugin.
	node, other string
}

// conflist is the configuration of the other plugin. The runtime takes the first file.
const conflist = `{"cniVersion":"1.0.0","name":"infra","plugins":[{"type":"bridge","bridge":"ipam-br","ipam":{"type":"alioth-ipam"}}]}`

// start gives the node its label and its plugin, until the end of the test.
func start(t *testing.T) *env {
	t.Helper()
	e := &env{Env: suite.Start(t)}
	e.other, e.node = e.Nodes()
	t.Cleanup(func() {
		e.label(t, "null")
		e.OnNode(t, e.node, "sh", "-c", "rm -f /etc/cni/net.d/00-infra.conflist /opt/cni/bin/bridge; ip link del ipam-br 2>/dev/null || true")
	})
	e.OnNode(t, e.node, "cp", "/usr/lib/cni/bridge", "/opt/cni/bin/bridge")
	e.OnNode(t, e.node, "sh", "-c", "echo '"+conflist+"' > /etc/cni/net.d/00-infra.conflist")
	e.label(t, `"true"`)
	return e
}

func (e *env) label(t *testing.T, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, multitenancyv1alpha1.NodeLabel, value)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: e.node}}
	if err := e.Client.Patch(stage.Within(t, stage.Patience), node, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// waits until something is true, or fails the test.
func (e *env) waits(t *testing.T, what string, look func(context.Context) (bool, string, error)) {
	t.Helper()
	if err := scene.Until(stage.Within(t, stage.Patience), what, look); err != nil {
		t.Fatal(err)
	}
}

// api is the service on the node.
func (e *env) api(t *testing.T) nodeipamclient.Client {
	t.Helper()
	socket, err := e.Lab.NodePath(e.node, nodeipamclient.DefaultSocket)
	if err != nil {
		t.Fatal(err)
	}
	return nodeipamclient.Client{Socket: socket}
}

// request is that of another plugin for a pod's container.
func request(t *testing.T, container, namespace, name string) wire.IPConfigsRequest {
	t.Helper()
	who, err := json.Marshal(map[string]string{"PodName": name, "PodNamespace": namespace})
	if err != nil {
		t.Fatal(err)
	}
	return wire.IPConfigsRequest{InfraContainerID: container, PodInterfaceID: container + "-eth0", Ifname: "eth0", OrchestratorContext: who}
}

// container returns the ID of the sandbox that is attached for a pod.
func (e *env) container(t *testing.T, pod *corev1.Pod) string {
	t.Helper()
	dump, err := e.Dump(stage.Within(t, stage.Patience), e.node)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range dump.Attachments {
		if one.Pod.UID == string(pod.UID) && one.External {
			return one.ContainerID
		}
	}
	t.Fatalf("no attachment of %s in %+v", pod.Name, dump.Attachments)
	return ""
}
