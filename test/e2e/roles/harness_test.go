// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package roles

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/cluster"
	"github.com/alioth-net/alioth/test/cluster/underlay"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

const root = "../../.."

var suite = stage.NewSuiteOn("roles", root, cluster.Options{Dir: cluster.DefaultDir(root), Topology: underlay.DefaultTopology(4)})

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// env is the lab, with nodes that are eligible for roles and others that are not.
type env struct {
	*stage.Env
	// plain are the nodes without the label, eligible the nodes with it.
	plain, eligible []string
}

// judged is done once: the operator of the lab judges Services. Roles need that.
var judged sync.Once

// start makes the last two nodes eligible.
func start(t *testing.T) *env {
	t.Helper()
	e := &env{Env: suite.Start(t)}
	nodes := e.Lab.Nodes()
	if len(nodes) < 4 {
		t.Fatalf("the lab that is up has %d nodes, these tests need 4: run first: make down", len(nodes))
	}
	judged.Do(func() {
		out, err := e.Lab.Helm(stage.Within(t, stage.Patience), "upgrade", "alioth", filepath.Join(root, "helm", "alioth"), "--namespace", cluster.SystemNamespace,
			"--reuse-values", "--no-hooks", "--set", "scaledEndpoints.enabled=true", "--wait", "--timeout", "3m")
		if err != nil {
			t.Fatalf("turn ScaledEndpoints on: %v\n%s", err, out)
		}
	})
	for i, node := range nodes[:4] {
		eligible := i >= 2
		e.label(t, node.Name, eligible)
		if eligible {
			e.eligible = append(e.eligible, node.Name)
		} else {
			e.plain = append(e.plain, node.Name)
		}
	}
	return e
}

// label makes a node eligible, or no longer.
func (e *env) label(t *testing.T, name string, eligible bool) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	var value *string
	if eligible {
		value = ptr.To("true")
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.RoleNodeLabel: value}}})
	if err == nil {
		err = e.Client.Patch(stage.Within(t, stage.Patience), node, client.RawPatch("application/merge-patch+json", patch))
	}
	if err != nil {
		t.Fatalf("label node %s: %v", name, err)
	}
}

// tenant describes one with this many bouncers in each subnet, and dividers.
func tenant(name string, bouncers, dividers int32) scene.TenantSpec {
	spec := stage.Overlapping(name)
	spec.Dividers = dividers
	for i := range spec.Subnets {
		spec.Subnets[i].Bouncers = bouncers
	}
	return spec
}

// waits until something is true, or fails the test.
func (e *env) waits(t *testing.T, what string, look func(context.Context) (bool, string, error)) {
	t.Helper()
	if err := scene.Until(stage.Within(t, stage.Patience), what, look); err != nil {
		t.Fatal(err)
	}
}

// served waits until the roles of a VPC are served by exactly these nodes, and every node
// that may send to its members lists them and no others.
func (e *env) served(t *testing.T, tenant *scene.Tenant, bouncers, dividers []string) {
	t.Helper()
	e.waits(t, fmt.Sprintf("VPC %s to have bouncers %v and dividers %v", tenant.VPC.Name, bouncers, dividers), func(ctx context.Context) (bool, string, error) {
		var list v1alpha1.RoleMemberList
		if err := e.Client.List(ctx, &list, client.MatchingFields{"spec.vpc": tenant.VPC.Name}); err != nil {
			return false, "", err
		}
		got := map[string][]string{}
		for _, m := range list.Items {
			if m.Spec.Stage != v1alpha1.StageServing {
				return false, fmt.Sprintf("%s of %q on %s is %s", m.Spec.Role, m.Spec.Subnet, m.Spec.Node, m.Spec.Stage), nil
			}
			got[m.Spec.Subnet] = append(got[m.Spec.Subnet], m.Spec.Node)
		}
		for _, subnet := range tenant.Subnets {
			if !sameNodes(got[subnet.Name], bouncers) {
				return false, fmt.Sprintf("subnet %s has %v", subnet.Name, got[subnet.Name]), nil
			}
		}
		return sameNodes(got[""], dividers), fmt.Sprintf("the VPC has %v", got[""]), nil
	})
}

func sameNodes(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}

// relies waits until a node has no table of a subnet of a VPC, so that it needs members.
func (e *env) relies(t *testing.T, node string, tenant *scene.Tenant) {
	t.Helper()
	e.waits(t, fmt.Sprintf("node %s to drop the tables of VPC %s", node, tenant.VPC.Name), func(ctx context.Context) (bool, string, error) {
		dump, err := e.Dump(ctx, node)
		if err != nil {
			return false, "", err
		}
		table, known := dump.Tables[tenant.VPC.Name]
		return known && table.Members && !table.Addresses && len(table.OfSubnets) == 0, fmt.Sprintf("it has %+v", table), nil
	})
}

// change changes an object of the API.
func change[O client.Object](t *testing.T, e *env, object O, edit func(O)) {
	t.Helper()
	before := object.DeepCopyObject().(client.Object)
	edit(object)
	if err := e.Client.Patch(stage.Within(t, stage.Patience), object, client.MergeFrom(before)); err != nil {
		t.Fatalf("change %T %s: %v", object, object.GetName(), err)
	}
}

// trace returns the steps of a packet's path as the nodes tell them.
func (e *env) trace(t *testing.T, from *corev1.Pod, to netip.Addr) string {
	t.Helper()
	out, err := e.Lab.NodeExec(
		stage.Within(t, stage.Patience),
		e.Lab.Nodes()[0].Name,
		e.Lab.Aliothctl(),
		"--kubeconfig",
		e.Lab.Kubeconfig(),
		"trace",
		from.Namespace+"/"+from.Name,
		to.String(),
	)
	if err != nil {
		t.Fatalf("trace: %v\n%s", err, out)
	}
	return out
}

// flow is a stream that runs until the test stops it.
type flow struct {
	*stage.Running
	name   string
	result report.Stream
}

// stream starts a stream from a pod to another one, and returns once it flows.
func (e *env) stream(t *testing.T, from, to *corev1.Pod, v6 bool) *flow {
	t.Helper()
	f := &flow{name: fmt.Sprintf("%s to %s", from.Name, to.Name)}
	target := netip.AddrPortFrom(scene.IP(to, v6), report.PortStream).String()
	f.Running = e.begin(t, from, &f.result, "stream", target, "--interval", stage.Interval())
	return f
}

// begin runs a command of the test tool in a pod until e.End, and returns once it has had an
// answer.
func (e *env) begin(t *testing.T, pod *corev1.Pod, into any, command ...string) *stage.Running {
	t.Helper()
	ctx := stage.Within(t, 3*stage.Patience)
	r := e.Begin(ctx, pod, into, command...)
	if err := e.AwaitBegun(ctx, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// ends ends a command.
func (e *env) ends(t *testing.T, r *stage.Running) {
	t.Helper()
	if err := e.End(stage.Within(t, stage.Patience), r); err != nil {
		t.Fatalf("in %s: %v", r.Pod.Name, err)
	}
}

// unharmed ends a stream and requires that it lost no connection and no record.
func (e *env) unharmed(t *testing.T, f *flow) {
	t.Helper()
	e.ends(t, f.Running)
	t.Logf("%s: %d records, longest silence %s", f.name, f.result.Sent, f.result.LongestSilence)
	if r := f.result; r.Reconnects != 0 || r.Corrupt != 0 || r.Returned != r.Sent || r.Sent < 100 {
		t.Errorf("%s was harmed: %+v", f.name, r)
	}
}

// lossless ends new connections and requires that each was answered.
func (e *env) lossless(t *testing.T, r *stage.Running, result *report.Connections) {
	t.Helper()
	e.ends(t, r)
	t.Logf("from %s: %d connections, p99 %s, longest %s", r.Pod.Name, result.Opened, result.Took.P99, result.Took.Max)
	if result.Lost != 0 || result.Answered != result.Opened {
		t.Errorf("from %s, %d of %d connections were lost: %+v", r.Pod.Name, result.Lost, result.Opened, result.Losses)
	}
}

// reach requires that each pod reaches every other one, by all protocols and families.
func (e *env) reach(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, from := range pods {
		want := map[string]string{}
		for _, to := range pods {
			if to != from {
				for target, name := range stage.WantPod(to) {
					want[target] = name
				}
			}
		}
		e.ExpectAnswers(t, from, want)
	}
}

// conditionOf returns the condition RolesReady of an object's conditions as text.
func conditionOf(conditions []metav1.Condition) string {
	c := meta.FindStatusCondition(conditions, v1alpha1.RolesReadyCondition)
	if c == nil {
		return "none"
	}
	return strings.Join([]string{string(c.Status), c.Reason, c.Message}, " ")
}
