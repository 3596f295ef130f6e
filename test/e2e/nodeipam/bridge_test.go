// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeipam

import (
	"context"
	"net/netip"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
	"github.com/alioth-net/alioth/test/waits"
)

const root = "../../.."

// bridgeRange is the range of the infrastructure subnet. bridgePlugin is the example in
// docs/operate/node-ipam-api.md, with the bridge that UsePlugin removes.
const (
	bridgeRange  = "10.250.0.0/16"
	bridgePlugin = `{"cniVersion":"1.0.0","name":"infra","plugins":[{"type":"bridge","bridge":"infra-br","isGateway":true,"ipMasq":false,"ipam":{"type":"alioth-ipam"}}]}`
)

// TestTheDocumentedBridgeWorks: with an infrastructure subnet of its own, pods of the plugin
// bridge answer the kubelet's probes.
func TestTheDocumentedBridgeWorks(t *testing.T) {
	e := &env{Env: suite.Start(t)}
	e.other, e.node = e.Nodes()
	vpc := &v1alpha1.VPC{ObjectMeta: metav1.ObjectMeta{Name: "infra"}, Spec: v1alpha1.VPCSpec{CIDRs: []string{bridgeRange}}}
	subnet := &v1alpha1.Subnet{ObjectMeta: metav1.ObjectMeta{Name: "infra"}, Spec: v1alpha1.SubnetSpec{VPC: "infra", CIDRs: []string{bridgeRange}}}
	e.Make(t, vpc, subnet)
	t.Cleanup(func() { e.setInfraSubnet(t, v1alpha1.DefaultVPCName) })
	e.setInfraSubnet(t, subnet.Name)
	e.UsePlugin(t, e.node, bridgePlugin)
	namespace := e.PlainNamespace(t)
	pod := e.run(t, scene.Pod(namespace, "bridged", scene.OnNode(e.node), scene.WithReadiness(corev1.ProbeHandler{
		HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(report.PortHTTP)},
	})))
	if ip := scene.IP(pod, false); !netip.MustParsePrefix(bridgeRange).Contains(ip) {
		t.Fatalf("the pod has %s, want an address of %s", ip, bridgeRange)
	}
	e.expectReleased(t, pod)
}

// setInfraSubnet changes the chart's value, and waits until the operators have it.
func (e *env) setInfraSubnet(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waits.Limit(stage.Patience))
	defer cancel()
	out, err := e.Lab.Helm(ctx, "upgrade", "alioth", filepath.Join(root, "helm", "alioth"), "--namespace", cluster.SystemNamespace,
		"--reuse-values", "--no-hooks", "--set", "nodeIPAM.infraSubnet="+name, "--wait", "--timeout", "3m")
	if err != nil {
		t.Fatalf("set the infrastructure subnet: %v\n%s", err, out)
	}
}
