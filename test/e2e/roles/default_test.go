// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// defaultVPC is the name that the chart gives it.
const defaultVPC = "default"

// common is the default VPC with a Service and a pod on each node, asked by all.
type common struct {
	*env
	tenant  *scene.Tenant
	pods    []*corev1.Pod
	service *corev1.Service
}

func (e *env) common(t *testing.T) *common {
	t.Helper()
	c := &common{env: e, tenant: &scene.Tenant{Namespace: scene.Namespace(e.PlainNamespace(t), ""), VPC: &v1alpha1.VPC{}}}
	ctx := stage.Within(t, stage.Patience)
	var subnets v1alpha1.SubnetList
	if err := e.Client.Get(ctx, client.ObjectKey{Name: defaultVPC}, c.tenant.VPC); err != nil {
		t.Fatal(err)
	}
	if err := e.Client.List(ctx, &subnets, client.MatchingFields{"spec.vpc": defaultVPC}); err != nil || len(subnets.Items) == 0 {
		t.Fatalf("the default VPC has the subnets %v, %v", subnets.Items, err)
	}
	for i := range subnets.Items {
		c.tenant.Subnets = append(c.tenant.Subnets, &subnets.Items[i])
	}
	healthy := scene.WithReadiness(corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz", Port: intstr.FromInt32(report.PortHTTP)}})
	for _, node := range slices.Concat(e.plain, e.eligible) {
		c.pods = append(c.pods, scene.Pod(c.tenant.Namespace.Name, "on-"+node, scene.OnNode(node), scene.WithLabel("app", "web"), healthy))
	}
	c.service = serviceOf(c.tenant, "web", map[string]string{"app": "web"})
	e.Make(t, c.service)
	e.Run(t, c.pods...)
	return c
}

// TestDefaultVPC_RolesChange_PodsStayConnected sets bouncers and dividers and takes them away
// again. Each node has addresses of its own in this VPC, and the pods of the cluster, DNS among
// them, live in it.
func TestDefaultVPC_RolesChange_PodsStayConnected(t *testing.T) {
	e := start(t)
	c := e.common(t)
	t.Cleanup(func() { c.settle(t, nil, nil) })
	flows := []*flow{e.stream(t, c.pods[0], c.pods[1], false), e.stream(t, c.pods[1], c.pods[2], true), e.stream(t, c.pods[3], c.pods[0], false)}
	var connections report.Connections
	at := net.JoinHostPort(c.service.Spec.ClusterIP, strconv.Itoa(report.PortEcho))
	load := e.begin(t, c.pods[0], &connections, "connections", at, "--rate", "20")
	c.works(t)
	for _, numbers := range []struct{ bouncers, dividers *int32 }{
		{ptr.To[int32](2), nil}, {ptr.To[int32](2), ptr.To[int32](2)}, {nil, nil},
	} {
		c.settle(t, numbers.bouncers, numbers.dividers)
		c.works(t)
	}
	for _, f := range flows {
		e.unharmed(t, f)
	}
	e.lossless(t, load, &connections)
}

// settle sets the numbers of members, and returns when all serve and nodes use them.
func (c *common) settle(t *testing.T, bouncers, dividers *int32) {
	t.Helper()
	change(t, c.env, c.tenant.VPC, func(v *v1alpha1.VPC) { v.Spec.Dividers = dividers })
	for _, subnet := range c.tenant.Subnets {
		change(t, c.env, subnet, func(s *v1alpha1.Subnet) { s.Spec.Bouncers = bouncers })
	}
	of := func(number *int32) []string {
		if number == nil {
			return nil
		}
		return c.eligible
	}
	c.served(t, c.tenant, of(bouncers), of(dividers))
	for _, node := range c.plain {
		if bouncers != nil {
			c.relies(t, node, c.tenant)
		}
	}
}

// works requires that pods and nodes reach each other, that names and Services are answered, and
// that all probes succeed.
func (c *common) works(t *testing.T) {
	t.Helper()
	c.reach(t, c.pods...)
	var nodes []string
	for _, node := range c.Lab.Nodes() {
		nodes = append(nodes, scene.Target("icmp", node.IPv4), scene.Target("icmp", node.IPv6))
	}
	service := scene.Targets([]string{"tcp", "udp", "http"}, netip.MustParseAddr(c.service.Spec.ClusterIP))
	for _, pod := range c.pods {
		results, err := c.Ask(stage.Within(t, stage.Patience), pod, stage.AnswerTime, slices.Concat(nodes, service)...)
		answered(t, pod.Name, results, err)
		if got := c.InPod(t, pod, scene.Tool, "resolve", "10.96.0.1"); !strings.Contains(got, "kubernetes.default.svc.cluster.local.") {
			t.Errorf("in %s, the ClusterIP of the API has the name %q", pod.Name, got)
		}
	}
	for _, node := range c.Lab.Nodes() {
		var targets []string
		for _, pod := range c.pods {
			targets = append(targets, scene.Targets(scene.Protocols(), scene.IPs(pod)...)...)
		}
		out := c.OnNode(t, node.Name, append([]string{"testtool", "probe", "--timeout", stage.AnswerTime.String()}, slices.Concat(targets, service)...)...)
		results, err := scene.ParseLines[report.Probe](out)
		answered(t, node.Name, results, err)
	}
	c.stayReady(t)
}

// answered requires that results exist and that all of them are answers.
func answered(t *testing.T, from string, results []report.Probe, err error) {
	t.Helper()
	if err != nil || len(results) == 0 {
		t.Fatalf("ask from %s: %d results, %v", from, len(results), err)
	}
	for _, result := range results {
		if !result.OK {
			t.Errorf("from %s: %s: %s", from, result.Target, result.Error)
		}
	}
}

// stayReady requires that the kubelet has found no pod unhealthy.
func (c *common) stayReady(t *testing.T) {
	t.Helper()
	for _, pod := range c.pods {
		now := &corev1.Pod{}
		if err := c.Client.Get(stage.Within(t, stage.Patience), client.ObjectKeyFromObject(pod), now); err != nil {
			t.Fatal(err)
		}
		since, was := scene.PodCondition(now, corev1.PodReady), scene.PodCondition(pod, corev1.PodReady)
		if !scene.IsReady(now) || !since.LastTransitionTime.Equal(&was.LastTransitionTime) {
			t.Errorf("a probe of %s has failed:\n%s", pod.Name, c.Describe(context.Background(), now))
		}
	}
}
