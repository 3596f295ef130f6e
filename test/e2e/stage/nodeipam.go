// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	multitenancyv1alpha1 "github.com/alioth-net/alioth/api/multitenancy/v1alpha1"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	nodeipamclient "github.com/alioth-net/alioth/cnid/nodeipam/client"
	"github.com/alioth-net/alioth/cnid/nodeipam/wire"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// otherPlugin is the configuration of the other plugin. The runtime takes the first file. The
// nodes of the lab offer devices whose names begin with ipam, so the bridge has another name:
// until it has a port, it would be offered.
const otherPlugin = `{"cniVersion":"1.0.0","name":"infra","plugins":[{"type":"bridge","bridge":"infra-br","ipam":{"type":"alioth-ipam"}}]}`

// UseOtherPlugin gives a node the label of the node IPAM API, and the plugin bridge, which
// attaches its pods until the end of the test. It concerns every pod of the node that asks
// for no network of Alioth.
func (e *Env) UseOtherPlugin(t *testing.T, node string) {
	t.Helper()
	e.UsePlugin(t, node, otherPlugin)
}

// UsePlugin does so with another configuration of the plugin bridge. The bridge has to be
// infra-br.
func (e *Env) UsePlugin(t *testing.T, node, configuration string) {
	t.Helper()
	t.Cleanup(func() {
		e.awaitDetached(t, node)
		e.labelNode(t, node, "null")
		e.OnNode(
			t,
			node,
			"sh",
			"-c",
			"rm -f /etc/cni/net.d/00-infra.conflist /opt/cni/bin/bridge; ip link del infra-br 2>/dev/null || true",
		)
	})
	e.OnNode(t, node, "cp", "/usr/lib/cni/bridge", "/opt/cni/bin/bridge")
	e.OnNode(t, node, "sh", "-c", "echo '"+configuration+"' > /etc/cni/net.d/00-infra.conflist")
	e.labelNode(t, node, `"true"`)
}

// awaitDetached waits until the other plugin has detached its pods, which nobody else does.
func (e *Env) awaitDetached(t *testing.T, node string) {
	t.Helper()
	err := scene.Until(
		Within(t, Patience),
		"the pods of the other plugin to be detached",
		func(ctx context.Context) (bool, string, error) {
			dump, err := e.Dump(ctx, node)
			left := slices.DeleteFunc(dump.Attachments, func(one nodestatus.Attachment) bool { return !one.External })
			return err == nil && len(left) == 0, fmt.Sprintf("%+v", left), err
		},
	)
	if err != nil {
		t.Error(err)
	}
}

func (e *Env) labelNode(t *testing.T, name, value string) {
	t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, multitenancyv1alpha1.NodeLabel, value)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := e.Client.Patch(Within(t, Patience), node, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// OfferDevice gives a node a device that pods may get, and waits until the node offers it.
func (e *Env) OfferDevice(t *testing.T, node, mac string) {
	t.Helper()
	e.OnNode(
		t,
		node,
		"sh",
		"-c",
		"ip link add ipam0 address "+mac+" type veth peer name swp-ipam && ip link set swp-ipam up",
	)
	t.Cleanup(func() { e.OnNode(t, node, "ip", "link", "del", "swp-ipam") })
	err := scene.Until(
		Within(t, Patience),
		"the node to offer the device",
		func(ctx context.Context) (bool, string, error) {
			info := &multitenancyv1alpha1.NodeInfo{ObjectMeta: metav1.ObjectMeta{Name: node}}
			err := e.Client.Get(ctx, client.ObjectKeyFromObject(info), info)
			return err == nil && len(info.Status.DeviceInfos) == 1, fmt.Sprintf("%+v, %v", info.Status, err), nil
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	err = scene.Until(
		Within(t, Patience),
		"the kubelet to count the device",
		func(ctx context.Context) (bool, string, error) {
			counting := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
			err := e.Client.Get(ctx, client.ObjectKeyFromObject(counting), counting)
			count := counting.Status.Allocatable[deviceResource]
			return err == nil && count.Value() == 1, fmt.Sprintf("%v, %v", counting.Status.Allocatable, err), nil
		},
	)
	if err != nil {
		t.Fatal(err)
	}
}

// deviceResource is the resource of such devices.
const deviceResource = corev1.ResourceName(multitenancyv1alpha1.DeviceTypeVnetNIC)

// RequestDevice has a pod request a device, as pods for CNS do.
func RequestDevice(pod *corev1.Pod) *corev1.Pod {
	one := corev1.ResourceList{deviceResource: resource.MustParse("1")}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
	return pod
}

// NodeIPAM returns the node IPAM API of a node, at its socket.
func (e *Env) NodeIPAM(t *testing.T, node string) nodeipamclient.Client {
	t.Helper()
	socket, err := e.Lab.NodePath(node, nodeipamclient.DefaultSocket)
	if err != nil {
		t.Fatal(err)
	}
	return nodeipamclient.Client{Socket: socket}
}

// IPConfigsRequest returns the request of another plugin for a pod's container.
func IPConfigsRequest(t *testing.T, container, namespace, name string) wire.IPConfigsRequest {
	t.Helper()
	who, err := json.Marshal(map[string]string{"PodName": name, "PodNamespace": namespace})
	if err != nil {
		t.Fatal(err)
	}
	return wire.IPConfigsRequest{
		InfraContainerID:    container,
		PodInterfaceID:      container + "-eth0",
		Ifname:              "eth0",
		OrchestratorContext: who,
	}
}
