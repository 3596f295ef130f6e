// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package rights_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	nmstatev1 "github.com/alioth-net/alioth/api/nmstate/v1"
	nmstatev1beta1 "github.com/alioth-net/alioth/api/nmstate/v1beta1"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/api/chart"
)

const areaOn, thisNode, otherNode = "nodeNetworkState.enabled=true", "rights-this", "rights-other"

// handlers are the programs that handle the networks of nodes, each with its token.
type handlers struct {
	operator, daemon, other client.WithWatch
}

// TestHandlerRights_NodeNetworkPolicy_ExactlyUsed makes the requests that a policy causes, in both
// modes.
func TestHandlerRights_NodeNetworkPolicy_ExactlyUsed(t *testing.T) {
	for _, mode := range []string{"distributed", "centralized"} {
		t.Run(mode, func(t *testing.T) {
			args := []string{"--set", areaOn + ",nodeNetworkState.policyMode=" + mode}
			admin, server := install(t, args...)
			h := newHandlers(t, admin, server)
			policies := makePolicies(t, admin)
			// The handler that decides about this node, and the one that must not decide about the
			// other.
			decides, decidesNot := h.daemon, h.operator
			if mode == "centralized" {
				decides, decidesNot = h.operator, h.other
			}
			state, other := observe(t, h.daemon, thisNode), observe(t, h.other, otherNode)
			enactment := enact(t, decides, state, name)
			permit(t, h.operator, enactment, policies)
			conclude(t, decides, enactment)
			if err := decides.Delete(t.Context(), enactment, client.Preconditions{UID: &enactment.UID}); err != nil {
				t.Fatal(err)
			}
			// The operator deletes the remainders of a node that is gone.
			if err := h.operator.Delete(t.Context(), enact(t, decides, state, "left")); err != nil {
				t.Fatal(err)
			}
			readAll(t, h, decides)
			read(t, admin, thisNode, state)
			read(t, admin, otherNode, other)
			wantForbidden(t, "who does not decide in this mode", desire(t.Context(), decidesNot, other))
			wantForbidden(t, "the daemon of another node", desire(t.Context(), h.other, state))
			if mode == "centralized" {
				desiring := &nmstatev1beta1.NodeNetworkState{ObjectMeta: metav1.ObjectMeta{Name: otherNode}}
				desiring.Spec.DesiredState = &runtime.RawExtension{Raw: []byte(`{"interfaces":[]}`)}
				wantForbidden(t, "a state that is made with a desired one", h.other.Create(t.Context(), desiring))
			}
			compareRights(t, server, "nmstate.io", args)
		})
	}
}

// compareRights compares the requests on objects of API groups, whose names contain a text,
// with the chart's rights.
func compareRights(t *testing.T, server *apiserver.Server, groups string, args []string) {
	t.Helper()
	compareRightsOf(t, server, []chart.Account{{Name: "alioth-operator"}, {Name: "alioth-cnid", Node: thisNode}}, groups, args)
}

// compareRightsOf does so for some accounts alone.
func compareRightsOf(t *testing.T, server *apiserver.Server, accounts []chart.Account, groups string, args []string) {
	t.Helper()
	objects, err := chart.New(t, root, nil).Template(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	requests, err := server.Requests()
	if err != nil {
		t.Fatal(err)
	}
	for _, account := range accounts {
		_, unused, err := account.Compare(objects, requests)
		if err != nil {
			t.Fatal(err)
		}
		unused = slices.DeleteFunc(unused, func(right string) bool { return !strings.Contains(right, groups) })
		if len(unused) > 0 {
			t.Errorf("nothing that %s does needs %q", account.Name, unused)
		}
	}
}

func wantForbidden(t *testing.T, what string, err error) {
	t.Helper()
	if !apierrors.IsForbidden(err) {
		t.Errorf("%s: %v, want Forbidden", what, err)
	}
}

// newHandlers waits until the API server knows the roles and the policies of the chart.
func newHandlers(t *testing.T, admin client.Client, server *apiserver.Server) handlers {
	t.Helper()
	as := func(account string, bound *authenticationv1.BoundObjectReference) client.WithWatch {
		config := rest.AnonymousClientConfig(server.Config())
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}
		token, err := kubernetes.NewForConfigOrDie(server.Config()).CoreV1().ServiceAccounts(chart.Namespace).
			CreateToken(t.Context(), account, request, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		config.BearerToken = token.Status.Token
		c, err := client.NewWithWatch(config, client.Options{Scheme: admin.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	on := func(node string) client.WithWatch {
		object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		return as("alioth-cnid", &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: object.UID})
	}
	return handlers{as("alioth-operator", nil), on(thisNode), on(otherNode)}
}

// makePolicies makes one of each kind.
func makePolicies(t *testing.T, admin client.Client) []client.Object {
	t.Helper()
	desired := &runtime.RawExtension{Raw: []byte(`{"interfaces":[{"name":"bond1"}]}`)}
	today := &nmstatev1.NodeNetworkConfigurationPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	early := &nmstatev1.NodeNetConfPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	today.Spec.DesiredState, early.Spec.DesiredState = desired, desired
	policies := []client.Object{today, early}
	for _, policy := range policies {
		until(t, fmt.Sprintf("%T is created", policy), func(ctx context.Context) (bool, error) {
			err := admin.Create(ctx, policy)
			return err == nil, ignoreNotReady(err)
		})
	}
	return policies
}

// observe makes the state of a node, and reports its present networks.
func observe(t *testing.T, daemon client.Client, node string) *nmstatev1beta1.NodeNetworkState {
	t.Helper()
	state := &nmstatev1beta1.NodeNetworkState{ObjectMeta: metav1.ObjectMeta{Name: node}}
	if err := daemon.Create(t.Context(), state); err != nil {
		t.Fatal(err)
	}
	status(t, daemon, state, `[{"op":"add","path":"/status","value":{"currentState":{"interfaces":[{"name":"eth0"}]}}}]`)
	return state
}

// status patches the status of an object.
func status(t *testing.T, c client.Client, object client.Object, text string) {
	t.Helper()
	if err := c.Status().Patch(t.Context(), object, client.RawPatch(types.JSONPatchType, []byte(text))); err != nil {
		t.Fatal(err)
	}
}

// desire writes the desired state of a node.
func desire(ctx context.Context, c client.Client, state *nmstatev1beta1.NodeNetworkState) error {
	const desired = `{"interfaces":[{"name":"bond1"}]}`
	text := fmt.Appendf(nil, `[{"op":"test","path":"/metadata/resourceVersion","value":%q},`+
		`{"op":"add","path":"/spec/desiredState","value":%s},{"op":"add","path":"/spec/policyState","value":%s}]`, state.ResourceVersion, desired, desired)
	return c.Patch(ctx, state.DeepCopy(), client.RawPatch(types.JSONPatchType, text))
}

// enact does the work of the policy handler: an enactment with its status, the desired state of the
// node, and its owners.
func enact(t *testing.T, decides client.Client, state *nmstatev1beta1.NodeNetworkState, policy string) *nmstatev1beta1.NodeNetworkConfigurationEnactment {
	t.Helper()
	const kind = nmstatev1.NodeNetworkConfigurationPolicyKind
	enactment := &nmstatev1beta1.NodeNetworkConfigurationEnactment{ObjectMeta: metav1.ObjectMeta{
		Name:   nmstatev1beta1.EnactmentName(thisNode, kind, policy),
		Labels: map[string]string{nmstatev1.NodeLabel: nmstatev1beta1.LabelValue(thisNode), nmstatev1.PolicyLabel: nmstatev1beta1.LabelValue(policy)},
	}}
	if err := decides.Create(t.Context(), enactment); err != nil {
		t.Fatal(err)
	}
	status(t, decides, enactment, fmt.Sprintf(`[{"op":"add","path":"/status","value":{"policy":{"kind":%q,"name":%q,"uid":"u"}}}]`, kind, policy))
	if err := decides.Get(t.Context(), client.ObjectKeyFromObject(state), state); err != nil {
		t.Fatal(err)
	}
	if err := desire(t.Context(), decides, state); err != nil {
		t.Fatal(err)
	}
	owned := state.DeepCopy()
	status(t, decides, owned, fmt.Sprintf(`[{"op":"add","path":"/status/owners","value":[{"path":"interfaces[bond1]","owner":"%s/%s"}]}]`, kind, policy))
	return enactment
}

// permit grants a slot, and writes the status of the policies.
func permit(t *testing.T, operator client.Client, enactment client.Object, policies []client.Object) {
	t.Helper()
	status(t, operator, enactment, `[{"op":"add","path":"/status/slot","value":{"holder":"`+thisNode+`","expires":"2026-01-01T00:00:00.000000Z"}}]`)
	for _, policy := range policies {
		status(t, operator, policy, `[{"op":"add","path":"/status","value":{"observedGeneration":1}}]`)
	}
}

// conclude reports success, with the slot that is there, and labels the enactment again.
func conclude(t *testing.T, decides client.Client, enactment *nmstatev1beta1.NodeNetworkConfigurationEnactment) {
	t.Helper()
	status(t, decides, enactment, `[{"op":"add","path":"/status/policyGeneration","value":1}]`)
	if enactment.Status.Slot == nil {
		t.Error("the enactment has no slot")
	}
	labels := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, nmstatev1.PolicyLabel, name))
	if err := decides.Patch(t.Context(), enactment, labels); err != nil {
		t.Fatal(err)
	}
}

// readAll reads and follows the objects that each program needs: the state handler its node's
// state, the handler of policies all, and the operator all but single states.
func readAll(t *testing.T, h handlers, decides client.WithWatch) {
	t.Helper()
	states, state := &nmstatev1beta1.NodeNetworkStateList{}, &nmstatev1beta1.NodeNetworkState{}
	for _, c := range []client.WithWatch{h.daemon, h.operator} {
		follow(t, c, states)
	}
	for _, c := range []client.Client{h.daemon, decides} {
		read(t, c, thisNode, state)
	}
	for _, c := range []client.WithWatch{h.operator, decides} {
		for list, object := range map[client.ObjectList]client.Object{
			&nmstatev1.NodeNetworkConfigurationPolicyList{}:         &nmstatev1.NodeNetworkConfigurationPolicy{},
			&nmstatev1.NodeNetConfPolicyList{}:                      &nmstatev1.NodeNetConfPolicy{},
			&nmstatev1beta1.NodeNetworkConfigurationEnactmentList{}: &nmstatev1beta1.NodeNetworkConfigurationEnactment{},
		} {
			follow(t, c, list)
			read(t, c, name, object)
		}
	}
}

func follow(t *testing.T, c client.WithWatch, list client.ObjectList) {
	t.Helper()
	watch, err := c.Watch(t.Context(), list)
	if err != nil {
		t.Fatal(err)
	}
	watch.Stop()
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, c client.Client, name string, object client.Object) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKey{Name: name}, object); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
}
