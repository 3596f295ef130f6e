// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package survey

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/cnid/inspect/preflight"
	"github.com/alioth-net/alioth/test/api/apiserver"
)

var shared apiserver.Shared

func TestMain(m *testing.M) { os.Exit(shared.Run(m)) }

func connect(t *testing.T) (*rest.Config, kubernetes.Interface) {
	t.Helper()
	config := shared.Config(t)
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return config, api
}

// must ends the test for an error of a request.
func must[T any](t *testing.T) func(T, error) T {
	return func(value T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// populate makes a cluster with another network.
func populate(ctx context.Context, t *testing.T, api kubernetes.Interface) {
	t.Helper()
	node := must[*corev1.Node](t)(api.CoreV1().Nodes().Create(ctx, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "first", Labels: map[string]string{"kubernetes.io/os": "linux"}},
		Spec:       corev1.NodeSpec{PodCIDR: "10.99.0.0/24", PodCIDRs: []string{"10.99.0.0/24"}},
	}, metav1.CreateOptions{}))
	node.Status = corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeHostName, Address: "first"}},
		NodeInfo:   corev1.NodeSystemInfo{KernelVersion: "5.10.0", ContainerRuntimeVersion: "containerd://2.4.2", OperatingSystem: "linux", Architecture: "amd64"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}
	must[*corev1.Node](t)(api.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}))
	must[*corev1.Namespace](t)(api.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{v1alpha1.TenantLabel: "shop"}},
	}, metav1.CreateOptions{}))
	pod := must[*corev1.Pod](t)(api.CoreV1().Pods("shop").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       corev1.PodSpec{NodeName: "first", Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}}},
	}, metav1.CreateOptions{}))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.99.0.7", PodIPs: []corev1.PodIP{{IP: "10.99.0.7"}}}
	must[*corev1.Pod](t)(api.CoreV1().Pods("shop").UpdateStatus(ctx, pod, metav1.UpdateOptions{}))
	must[*appsv1.DaemonSet](t)(api.AppsV1().DaemonSets("kube-system").Create(ctx, flannel(), metav1.CreateOptions{}))
	must[*admissionv1.MutatingWebhookConfiguration](
		t,
	)(
		api.AdmissionregistrationV1().MutatingWebhookConfigurations().Create(ctx, injector(), metav1.CreateOptions{}),
	)
}

func flannel() *appsv1.DaemonSet {
	labels := map[string]string{"app": "flannel"}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "kube-flannel-ds"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "ghcr.io/flannel-io/flannel:v0.27.0"}}},
			},
		},
	}
}

// injector has a webhook that prevents pods, in a namespace without any, and one that does not.
func injector() *admissionv1.MutatingWebhookConfiguration {
	webhook := func(name string, policy admissionv1.FailurePolicyType) admissionv1.MutatingWebhook {
		return admissionv1.MutatingWebhook{
			Name: name, FailurePolicy: &policy, SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
			ClientConfig:      admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "mesh", Name: "injector"}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "mesh"}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}
	}
	return &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "mesh"},
		Webhooks:   []admissionv1.MutatingWebhook{webhook("fails.mesh.example.com", admissionv1.Fail), webhook("ignored.mesh.example.com", admissionv1.Ignore)},
	}
}

func TestSurvey_Cluster_AllFactsFound(t *testing.T) {
	config, api := connect(t)
	populate(t.Context(), t, api)
	reader, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	c, err := reader.Cluster(t.Context(), "alioth-system", "alioth")
	if err != nil || len(c.Unread) > 0 {
		t.Fatal(err, c.Unread)
	}
	v, err := preflight.ParseValues([]byte("apiServer: {host: 192.0.2.10}\ndefaultVPC: {cidrs: [10.99.0.0/16]}"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[preflight.Check]string{}
	for _, f := range preflight.JudgeCluster(c, v, false) {
		got[f.Check] += f.String() + "\n"
	}
	for check, want := range map[preflight.Check]string{
		preflight.KernelVersion: "node first: the kernel is 5.10.0",
		preflight.Ranges:        "overlaps the pod range of node first (10.99.0.0/24)",
		preflight.OtherNetworks: "flannel runs (DaemonSet kube-system/kube-flannel-ds)",
		preflight.PresentPods:   "1 pods have addresses",
		preflight.PodSecurity:   "namespace shop is one of tenant shop",
		// The server of the test has the CRDs without a Helm release.
		preflight.ForeignCRDs:    "the CRD vpcs.alioth.dev is there",
		preflight.SharedServices: "kube-system/kube-dns",
		preflight.Webhooks:       "fails.mesh.example.com",
	} {
		if !strings.Contains(got[check], want) {
			t.Errorf("%s: got %q, want %q", check, got[check], want)
		}
	}
	for _, check := range []preflight.Check{
		preflight.APIFeatures, preflight.KubernetesVersion, preflight.NodesReady,
		preflight.NodeAddresses, preflight.ContainerRuntime, preflight.NotRead,
	} {
		if check != preflight.NodeAddresses && got[check] != "" {
			t.Errorf("unexpected: %s", got[check])
		}
	}
	if strings.Contains(got[preflight.Webhooks], "ignored") || !slices.Contains(c.ServiceCIDRs, netip.MustParsePrefix(apiserver.ServiceCIDR4)) {
		t.Errorf("webhooks: %s, service ranges: %v", got[preflight.Webhooks], c.ServiceCIDRs)
	}
}

// TestSurvey_ReadForbidden_FindingReported has a user without any right.
func TestSurvey_ReadForbidden_FindingReported(t *testing.T) {
	config, api := connect(t)
	token := must[*authenticationv1.TokenRequest](
		t,
	)(
		api.CoreV1().ServiceAccounts("kube-system").CreateToken(t.Context(), account(t, api), &authenticationv1.TokenRequest{}, metav1.CreateOptions{}),
	)
	poor := rest.AnonymousClientConfig(config)
	poor.BearerToken = token.Status.Token
	reader, err := New(poor)
	if err != nil {
		t.Fatal(err)
	}
	c, err := reader.Cluster(t.Context(), "alioth-system", "alioth")
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(c.Unread, "\n"); len(c.Unread) < 8 || !strings.Contains(text, "read Nodes: ") || !strings.Contains(text, "forbidden") {
		t.Errorf("got %q", c.Unread)
	}
}

func account(t *testing.T, api kubernetes.Interface) string {
	t.Helper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "poor", Namespace: "kube-system"}}
	return must[*corev1.ServiceAccount](t)(api.CoreV1().ServiceAccounts("kube-system").Create(t.Context(), account, metav1.CreateOptions{})).Name
}

// TestSurvey_PodNotStarting_FindingAndPodDeleted: the server of the test has no kubelet.
func TestSurvey_PodNotStarting_FindingAndPodDeleted(t *testing.T) {
	config, api := connect(t)
	reader, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	pods := NodePods{Namespace: "kube-system", Image: "example.com/alioth:1", PullPolicy: corev1.PullNever, Within: time.Second}
	found := reader.Inside(t.Context(), []preflight.ClusterNode{{Name: "silent"}}, pods)
	if len(found) != 1 || found[0].Name != "silent" || len(found[0].Unread) != 1 ||
		!strings.Contains(found[0].Unread[0], "wait for the pod kube-system/alioth-preflight-") {
		t.Errorf("got %+v", found)
	}
	for _, node := range found {
		if findings := preflight.JudgeNode(node, preflight.Values{}); len(findings) != 1 || findings[0].Check != preflight.NotRead {
			t.Errorf("a node without facts has the findings %v", findings)
		}
	}
	list, err := api.CoreV1().Pods("kube-system").List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=alioth-preflight"})
	if err != nil || len(list.Items) > 0 {
		t.Errorf("pods are left: %v, %v", list, err)
	}
}

// TestSurvey_ValuesPassedToPod_Unchanged: the kubelet replaces references to variables in commands.
func TestSurvey_ValuesPassedToPod_Unchanged(t *testing.T) {
	v, err := preflight.ParseValues([]byte("daemon: {cniConfDir: /etc/$(HOME)/net.d}"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := escaped(v)
	if err != nil || !strings.Contains(text, "/etc/$$(HOME)/net.d") {
		t.Errorf("got %s, %v", text, err)
	}
	var back preflight.Values
	if err := json.Unmarshal([]byte(strings.ReplaceAll(text, "$$(", "$(")), &back); err != nil || back.Daemon.CNIConfDir != v.Daemon.CNIConfDir ||
		back.TunnelPort != v.TunnelPort || !back.DefaultVPC.Enabled || !slices.Equal(back.ShadowCIDRs, v.ShadowCIDRs) {
		t.Errorf("got %+v, %v", back, err)
	}
}
