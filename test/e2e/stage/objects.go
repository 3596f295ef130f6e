// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package stage

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/cnid/cni/cniapi"
	"github.com/alioth-net/alioth/cnid/inspect/nodestatus"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/waits"
)

// Nodes returns the names of the first two nodes. The first runs the control plane.
func (e *Env) Nodes() (first, second string) {
	all := e.Lab.Nodes()
	return all[0].Name, all[1].Name
}

// Overlapping describes a tenant with the ranges that all tenants of these
// tests share: two subnets, both families.
func Overlapping(name string) scene.TenantSpec {
	return scene.TenantSpec{
		Name:  name,
		CIDRs: []string{"10.10.0.0/16", "fd10:10::/48"},
		Subnets: []scene.Range{
			{Name: "net1", CIDRs: []string{"10.10.1.0/24", "fd10:10:0:1::/64"}},
			{Name: "net2", CIDRs: []string{"10.10.2.0/24", "fd10:10:0:2::/64"}},
		},
	}
}

// OnNodeRange describes a tenant whose VPC has the nodes' own range and gateway,
// so that its pods may have any node's address but the reserved ones.
func (e *Env) OnNodeRange(name string, reserved ...string) scene.TenantSpec {
	v4, v6 := e.Lab.Topology().Networks()
	gateway4, gateway6 := e.Lab.Topology().HostIPs()
	return scene.TenantSpec{
		Name: name, CIDRs: []string{v4.String(), v6.String()},
		Subnets: []scene.Range{{
			Name: "net1", CIDRs: []string{v4.String(), v6.String()}, Gateway: []string{gateway4.String(), gateway6.String()},
			Reserved: reserved,
		}},
	}
}

// Tenant creates a tenant for the time of a test; its name is made unique.
func (e *Env) Tenant(t *testing.T, spec scene.TenantSpec) *scene.Tenant {
	t.Helper()
	spec.Name = Unique(spec.Name)
	tenant, err := e.SetUp(Within(t, Patience), spec)
	e.leaving.add(t, tenant)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(Patience))
		defer cancel()
		e.beginToLeave(ctx, t)
		if err := e.FinishLeaving(ctx, tenant); err != nil {
			t.Errorf("clean up tenant %s: %v\n%s", tenant.Name, err, e.evidence(tenant))
		}
		e.leaving.emptied(tenant.Namespace)
	})
	if err != nil {
		t.Fatalf("set up tenant %s: %v", tenant.Name, err)
	}
	return tenant
}

// PlainNamespace creates a namespace without any mark of Alioth's.
func (e *Env) PlainNamespace(t *testing.T) string {
	t.Helper()
	namespace := scene.Namespace(Unique("plain"), "")
	e.Make(t, namespace)
	if err := e.WaitForAccount(Within(t, Patience), namespace.Name); err != nil {
		t.Fatal(err)
	}
	return namespace.Name
}

// beginToLeave deletes the namespaces of all tenants of a test and their content, so that the pods
// of all of them end at the same time. Each tenant is waited for in its turn: the other objects
// that the test has made for it go before.
func (e *Env) beginToLeave(ctx context.Context, t *testing.T) {
	t.Helper()
	for _, tenant := range e.leaving.take(t) {
		if err := e.BeginToLeave(ctx, tenant.Namespace); err != nil {
			t.Errorf("clean up tenant %s: %v", tenant.Name, err)
		}
	}
}

// evidence returns data about a tenant whose objects do not go: its VPC, its subnets and their
// addresses, and the logs of the operators.
func (e *Env) evidence(tenant *scene.Tenant) string {
	ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(Patience))
	defer cancel()
	operators := "app.kubernetes.io/component=operator"
	var text strings.Builder
	for _, command := range [][]string{
		{"get", "vpc", tenant.VPC.Name, "-o", "yaml", "--ignore-not-found"},
		{"get", "subnets.alioth.dev", "-o", "wide"},
		{"get", "addresses.alioth.dev", "--field-selector", "spec.vpc=" + tenant.VPC.Name, "-o", "yaml"},
		{"logs", "-n", cluster.SystemNamespace, "-l", operators, "--tail=200", "--prefix"},
	} {
		out, err := e.Lab.Kubectl(ctx, command...)
		fmt.Fprintf(&text, "$ kubectl %s\n%s\n", strings.Join(command, " "), out)
		if err != nil {
			fmt.Fprintln(&text, err)
		}
	}
	return text.String()
}

// Make creates objects for the time of a test.
func (e *Env) Make(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := e.Create(Within(t, Patience), object); err != nil {
			t.Fatal(err)
		}
		e.RemoveAfter(t, object)
	}
}

// RemoveAfter deletes an object at the end of a test and waits until it is gone; of a
// namespace, until it is empty.
func (e *Env) RemoveAfter(t *testing.T, object client.Object) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waits.Limit(Patience))
		defer cancel()
		if err := e.remove(ctx, object); err != nil {
			t.Errorf("clean up: %v", err)
		}
	})
}

func (e *Env) remove(ctx context.Context, object client.Object) error {
	namespace, ok := object.(*corev1.Namespace)
	if !ok {
		return e.Delete(ctx, object)
	}
	if err := e.BeginToLeave(ctx, namespace); err != nil {
		return err
	}
	e.leaving.emptied(namespace)
	return e.WaitEmpty(ctx, namespace)
}

// Run creates pods and waits until they are Ready. They are deleted with their
// namespace.
func (e *Env) Run(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	if err := e.Start(Within(t, Patience), pods...); err != nil {
		t.Fatal(err)
	}
}

// InPod runs a command in a pod, or fails the test.
func (e *Env) InPod(t *testing.T, pod *corev1.Pod, command ...string) string {
	t.Helper()
	out, err := e.Exec(Within(t, Patience), pod, command...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// OnNode runs a command on a node, or fails the test. "testtool" stands for
// the test tool.
func (e *Env) OnNode(t *testing.T, node string, command ...string) string {
	t.Helper()
	if command[0] == "testtool" {
		command = append([]string{e.Tool}, command[1:]...)
	}
	out, err := e.Lab.NodeExec(Within(t, Patience), node, command...)
	if err != nil {
		t.Fatalf("on %s: %v\n%s", node, err, out)
	}
	return out
}

// InNetNS runs a command of the node in the network namespace of a pod, or fails the test.
func (e *Env) InNetNS(t *testing.T, pod *corev1.Pod, command ...string) string {
	t.Helper()
	space, err := e.Lab.PodNetNS(Within(t, Patience), pod.Namespace, pod.Name)
	if err != nil {
		t.Fatal(err)
	}
	return e.OnNode(t, pod.Spec.NodeName, append([]string{"nsenter", "--net=" + space}, command...)...)
}

// Dump asks a node's daemon itself for its tables, without the API server.
func (e *Env) Dump(ctx context.Context, node string) (nodestatus.Dump, error) {
	socket, err := e.Lab.NodePath(node, cniapi.DefaultSocket)
	if err != nil {
		return nodestatus.Dump{}, err
	}
	return nodestatus.FetchDump(ctx, socket)
}
