// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
)

// stolen is an interface that no policy has.
const stolen = "stolen0"

// nodesNetworks is a policy that is applied to both nodes, with its results there.
type nodesNetworks struct {
	*env
	policy *nmstatev1.NodeNetworkConfigurationPolicy
	// first and second are the objects of the two nodes.
	first, second nodeObjects
}

// nodeObjects are the objects that a node's daemon writes.
type nodeObjects struct {
	node      string
	state     *nmstatev1beta1.NodeNetworkState
	enactment *nmstatev1beta1.NodeNetworkConfigurationEnactment
}

func (o nodeObjects) all() []client.Object { return []client.Object{o.state, o.enactment} }

// nodesNetworks makes a policy with a bridge that nobody uses, and waits until both nodes
// have it.
func (e *env) nodesNetworks(t *testing.T, name, bridge string) *nodesNetworks {
	t.Helper()
	n := &nodesNetworks{env: e, policy: &nmstatev1.NodeNetworkConfigurationPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: nmstatev1.NodeNetworkConfigurationPolicySpec{DesiredState: &runtime.RawExtension{
			Raw: fmt.Appendf(nil, `{"interfaces":[{"name":%q,"type":"linux-bridge","state":"up"}]}`, bridge),
		}},
	}}
	e.Make(t, n.policy)
	first, second := e.Nodes()
	n.first, n.second = n.awaited(t, first), n.awaited(t, second)
	return n
}

func (n *nodesNetworks) awaited(t *testing.T, node string) nodeObjects {
	t.Helper()
	name := nmstatev1beta1.EnactmentName(node, nmstatev1.NodeNetworkConfigurationPolicyKind, n.policy.Name)
	objects := nodeObjects{node, &nmstatev1beta1.NodeNetworkState{}, &nmstatev1beta1.NodeNetworkConfigurationEnactment{}}
	err := scene.Until(stage.Within(t, stage.Patience), "the policy on "+node, func(ctx context.Context) (bool, string, error) {
		for key, object := range map[string]client.Object{node: objects.state, name: objects.enactment} {
			if err := n.Client.Get(ctx, client.ObjectKey{Name: key}, object); err != nil {
				return false, err.Error(), client.IgnoreNotFound(err)
			}
		}
		conditions := objects.enactment.Status.Conditions
		for _, c := range conditions {
			if c.Type == nmstatev1.AvailableCondition && c.Status == metav1.ConditionTrue {
				return true, "", nil
			}
		}
		return false, fmt.Sprintf("conditions %+v", conditions), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// expectUntouched requires that policy, states and enactments exist, and have none of the thieves'
// values. Other policies change the states meanwhile.
func (n *nodesNetworks) expectUntouched(t *testing.T) {
	t.Helper()
	ctx := stage.Within(t, stage.Patience)
	for _, before := range slices.Concat(n.first.all(), n.second.all(), []client.Object{n.policy}) {
		now, ok := before.DeepCopyObject().(client.Object)
		if !ok {
			t.Fatalf("a copy of %T is no object", before)
		}
		if err := n.Client.Get(ctx, client.ObjectKeyFromObject(before), now); err != nil {
			t.Errorf("%T %s: %v", before, before.GetName(), err)
			continue
		}
		if now.GetUID() != before.GetUID() || now.GetDeletionTimestamp() != nil {
			t.Errorf("%T %s is deleted or made anew", before, before.GetName())
		}
		text, err := json.Marshal(now)
		if err != nil {
			t.Fatal(err)
		}
		for _, mark := range []string{stolen, `"managed":false`, `"priority":9`, stolenUntil} {
			if strings.Contains(string(text), mark) {
				t.Errorf("%T %s has %s: %s", before, before.GetName(), mark, text)
			}
		}
	}
}

// writes returns the writes that a thief may try on a node's objects and on the policy.
func (n *nodesNetworks) writes(of nodeObjects) map[string]func(context.Context, client.Client) error {
	patch := func(object client.Object, text string, through ...string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			copied, _ := object.DeepCopyObject().(client.Object)
			if len(through) > 0 {
				return c.SubResource(through[0]).Patch(ctx, copied, client.RawPatch(types.MergePatchType, []byte(text)))
			}
			return c.Patch(ctx, copied, client.RawPatch(types.MergePatchType, []byte(text)))
		}
	}
	forged := &nmstatev1beta1.NodeNetworkConfigurationEnactment{ObjectMeta: metav1.ObjectMeta{
		Name: of.node + ".forged", Labels: map[string]string{nmstatev1.NodeLabel: nmstatev1beta1.LabelValue(of.node), nmstatev1.PolicyLabel: "forged"},
	}}
	return map[string]func(context.Context, client.Client) error{
		"desire another state":     patch(of.state, `{"spec":{"desiredState":{"interfaces":[{"name":"`+stolen+`","state":"absent"}]}}}`),
		"stop enforcing":           patch(of.state, `{"spec":{"managed":false}}`),
		"report another state":     patch(of.state, `{"status":{"refused":"`+stolen+`"}}`, "status"),
		"report a failure":         patch(of.enactment, `{"status":{"overruled":"`+stolen+`"}}`, "status"),
		"make an enactment":        func(ctx context.Context, c client.Client) error { return c.Create(ctx, forged.DeepCopy()) },
		"end an enactment":         func(ctx context.Context, c client.Client) error { return c.Delete(ctx, of.enactment.DeepCopy()) },
		"delete the state":         func(ctx context.Context, c client.Client) error { return c.Delete(ctx, of.state.DeepCopy()) },
		"make a policy":            n.forgedPolicy,
		"change a policy":          patch(n.policy, `{"spec":{"priority":9}}`),
		"end a policy":             func(ctx context.Context, c client.Client) error { return c.Delete(ctx, n.policy.DeepCopy()) },
		"say what became of it":    patch(n.policy, `{"status":{"conditions":null}}`, "status"),
		"permit the node a change": patch(of.enactment, grant(of.node), "status"),
	}
}

func (n *nodesNetworks) forgedPolicy(ctx context.Context, c client.Client) error {
	forged := &nmstatev1.NodeNetworkConfigurationPolicy{ObjectMeta: metav1.ObjectMeta{Name: n.policy.Name + "-forged"}, Spec: n.policy.Spec}
	return c.Create(ctx, forged)
}

// stolenUntil is the end of the slot that a thief writes. The operator grants slots as well,
// and takes one back only after its node is done.
const stolenUntil = "2099-01-01T00:00:00.000000Z"

// grant returns a slot that a node would give to itself.
func grant(node string) string {
	return fmt.Sprintf(`{"status":{"slot":{"holder":%q,"expires":%q}}}`, node, stolenUntil)
}

// TestStolenToken_OtherNodeNetwork_Unchanged has the token of the first node's daemon write the
// objects of the second, and write fields that only the operator may write.
func TestStolenToken_OtherNodeNetwork_Unchanged(t *testing.T) {
	t.Parallel()
	e := start(t)
	n := e.nodesNetworks(t, "hostile-token", "hostilebr0")
	thief := e.Steal(t, n.first.node)
	ctx := stage.Within(t, stage.Patience)
	for what, try := range n.writes(n.second) {
		if err := try(ctx, thief); !apierrors.IsForbidden(err) {
			t.Errorf("a stolen token tries to %s of node %s: %v, want Forbidden", what, n.second.node, err)
		}
	}
	own := n.writes(n.first)
	for what, why := range map[string]string{
		"permit the node a change": "only the Alioth operator grants and takes slots",
		"stop enforcing":           "must not change spec.managed",
		"delete the state":         "cannot delete",
	} {
		wantDenied(t, "a stolen token tries to "+what+" of its own node", own[what](ctx, thief), why)
	}
	n.expectUntouched(t)
}

// TestTenant_NodeNetworkWrite_Refused: the owner of a namespace has no right, and a ServiceAccount
// of a tenant may not even with the rights of a cluster administrator.
func TestTenant_NodeNetworkWrite_Refused(t *testing.T) {
	t.Parallel()
	e := start(t)
	n := e.nodesNetworks(t, "hostile-tenant", "hostilebr1")
	tenant := e.Tenant(t, stage.Overlapping("digger"))
	owner, robot := e.adminOf(t, tenant.Namespace.Name), e.mightyAccount(t, tenant.Namespace.Name)
	ctx := stage.Within(t, stage.Patience)
	for what, try := range n.writes(n.second) {
		wantDenied(t, "the owner of a namespace tries to "+what, try(ctx, owner.Client), "at the cluster scope")
		wantDenied(t, "a ServiceAccount of a tenant tries to "+what, try(ctx, robot), "")
	}
	wantDenied(t, "a policy of a ServiceAccount of a tenant", n.forgedPolicy(ctx, robot), "may not write objects of nmstate.io")
	n.expectUntouched(t)
}

// mightyAccount returns a client with the token of a ServiceAccount of a namespace that
// somebody has made a cluster administrator.
func (e *env) mightyAccount(t *testing.T, namespace string) client.Client {
	t.Helper()
	ctx := stage.Within(t, stage.Patience)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "robot"}}
	if err := e.Create(ctx, account); err != nil { // it goes with its namespace
		t.Fatal(err)
	}
	e.Make(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: namespace + "-robot"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: account.Name}},
	})
	request := &authenticationv1.TokenRequest{}
	if err := e.Client.SubResource("token").Create(ctx, account, request); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(e.Lab.Config())
	config.BearerToken = request.Status.Token
	robot, err := client.New(config, client.Options{Scheme: e.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	err = scene.Until(ctx, "the rights of the ServiceAccount", func(ctx context.Context) (bool, string, error) {
		err := robot.List(ctx, &corev1.NodeList{})
		return err == nil, fmt.Sprint(err), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return robot
}
