// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package admission_test

import (
	"context"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/test/api/chart"
)

// withToken returns a client that has nothing but a daemon's token, signed by
// the API server and bound to an object; nil binds it to none.
func withToken(t *testing.T, bound *authenticationv1.BoundObjectReference) client.Client {
	t.Helper()
	config := shared.server.Config(t)
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}
	token, err := kubernetes.NewForConfigOrDie(config).CoreV1().ServiceAccounts(chart.Namespace).
		CreateToken(t.Context(), "alioth-cnid", request, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, &rest.Config{Host: config.Host, TLSClientConfig: config.TLSClientConfig, BearerToken: token.Status.Token})
}

func boundTo(kind string, object client.Object) *authenticationv1.BoundObjectReference {
	return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: object.GetName(), UID: object.GetUID()}
}

// TestStolenToken_OtherNode_EachWriteRefused tries every write that a daemon has a right to, with
// real tokens: of the kind that the kubelet gets, and of other kinds that the API server can make.
func TestStolenToken_OtherNode_EachWriteRefused(t *testing.T) {
	admin := start(t)
	create(t, admin, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: chart.Namespace, Name: "alioth-cnid"}})
	home, other := node("token-home"), node("token-other")
	daemon := pod(chart.Namespace, "alioth-cnid-x", home.Name)
	daemon.Spec.ServiceAccountName = "alioth-cnid"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: chart.Namespace, Name: "token-secret"}}
	for _, object := range []client.Object{home, other, daemon, secret, address("10.2.0.1", home.Name), address("10.2.0.2", other.Name)} {
		create(t, admin, object)
	}
	writes := func(node, held string) map[string]func(context.Context, client.Client) error {
		return map[string]func(context.Context, client.Client) error{
			"release": release(admin, held),
			"answer":  creating(answerOf(node)),
			"event":   creating(daemonsEvent(node)),
			"condition": func(ctx context.Context, c client.Client) error {
				text := []byte(`{"status":{"conditions":[{"type":"NetworkUnavailable","status":"False"}]}}`)
				return target{c, "status"}.patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, "application/strategic-merge-patch+json", text)
			},
		}
	}
	for _, tt := range []struct {
		name        string
		bound       *authenticationv1.BoundObjectReference
		here, there string
	}{
		{"of its pod", boundTo("Pod", daemon), "", "the daemon of node token-home"},
		{"of its Node", boundTo("Node", home), "", "the daemon of node token-home"},
		{"of a Secret", boundTo("Secret", secret), "needs a token that is bound to its pod", "needs a token that is bound to its pod"},
		{"of nothing", nil, "needs a token that is bound to its pod", "needs a token that is bound to its pod"},
	} {
		c := withToken(t, tt.bound)
		for _, node := range []string{home.Name, other.Name} {
			t.Run(tt.name+", a claim on "+node, func(t *testing.T) { answered(t, c, creating(address("10.2.0.3", node)), "cannot create") })
		}
		for what, write := range writes(home.Name, "10.2.0.1") {
			t.Run(tt.name+", "+what+" here", func(t *testing.T) { answered(t, c, write, tt.here) })
		}
		for what, write := range writes(other.Name, "10.2.0.2") {
			t.Run(tt.name+", "+what+" there", func(t *testing.T) { answered(t, c, write, tt.there) })
		}
	}
}

// answered makes a request and checks that it is allowed, or refused with text.
func answered(t *testing.T, c client.Client, write func(context.Context, client.Client) error, refused string) {
	t.Helper()
	err := write(t.Context(), c)
	if refused != "" {
		err = wantRefused(err, refused)
	}
	if err != nil {
		t.Error(err)
	}
}
