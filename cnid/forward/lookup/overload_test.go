// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
)

// overload has the API server be busy with one request of a user, and refuse all others of
// the user. relieve ends that.
func overload(t *testing.T, user string) (relieve func()) {
	t.Helper()
	admin, err := client.New(server.Config(t), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hook, reached, answer := newWebhook(t, user)
	for _, object := range append(jail(user), hook) {
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = admin.Delete(context.Background(), object) })
	}
	config := server.Config(t)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:authenticated"}}
	maps := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps(metav1.NamespaceDefault)
	ctx, cancel := context.WithCancel(t.Context())
	var busy sync.WaitGroup
	busy.Go(func() {
		for ctx.Err() == nil { // until the API server knows the webhook
			_, _ = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: user}}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		}
	})
	<-reached
	relieve = sync.OnceFunc(func() { cancel(); answer(); busy.Wait() })
	t.Cleanup(relieve)
	return relieve
}

// jail are the rights of a user, and a level of priority for one request of the user at a
// time: one that does not fit into a level without seats is executed alone.
func jail(user string) []client.Object {
	meta, none := metav1.ObjectMeta{Name: user}, int32(0)
	return []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"addresses"}, Verbs: []string{"get"}},
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
		},
		&flowcontrolv1.PriorityLevelConfiguration{ObjectMeta: meta, Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: &none, BorrowingLimitPercent: &none, LimitResponse: flowcontrolv1.LimitResponse{Type: flowcontrolv1.LimitResponseTypeReject},
			},
		}},
		&flowcontrolv1.FlowSchema{ObjectMeta: meta, Spec: flowcontrolv1.FlowSchemaSpec{
			MatchingPrecedence: 10, PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: user},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{Kind: flowcontrolv1.SubjectKindUser, User: &flowcontrolv1.UserSubject{Name: user}}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{
					{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ClusterScope: true, Namespaces: []string{"*"}},
				},
			}},
		}},
	}
}

// newWebhook returns one for ConfigMaps of the user that answers once answer is called.
// reached is closed when it is asked first.
func newWebhook(t *testing.T, user string) (hook client.Object, reached <-chan struct{}, answer func()) {
	t.Helper()
	asked, answered := make(chan struct{}), make(chan struct{})
	first := sync.OnceFunc(func() { close(asked) })
	https := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		first()
		<-answered // an empty answer is a refusal
	}))
	answer = sync.OnceFunc(func() { close(answered) })
	t.Cleanup(func() { answer(); https.Close() })
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: https.Certificate().Raw})
	none, seconds := admissionv1.SideEffectClassNone, int32(30)
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: user}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: user + ".alioth.dev", ClientConfig: admissionv1.WebhookClientConfig{URL: &https.URL, CABundle: certificate},
		SideEffects: &none, AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: &seconds,
		MatchConditions: []admissionv1.MatchCondition{{Name: "user", Expression: "request.userInfo.username == '" + user + "'"}},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
	}}}, asked, answer
}
