// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/e2e/scene"
	"github.com/alioth-net/alioth/test/e2e/stage"
	"github.com/alioth-net/alioth/test/testtool/report"
)

// Ports that the attacker asks for: one of the node, and one that the victim's second Service gets
// later.
const (
	wantedPort = 18100
	laterPort  = 30021
)

// published returns a Service of type NodePort that leads to the victim's server; without
// a number any.
func published(namespace, name string, nodePort int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "victim"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(report.PortEcho), NodePort: nodePort}},
		},
	}
}

// asking returns a port of the node for the pod's echo.
func asking(port int32) scene.PodOption {
	return scene.WithHostPort(corev1.ProtocolTCP, "", port, report.PortEcho)
}

func onHostNetwork(pod *corev1.Pod) { pod.Spec.HostNetwork = true }

// TestTenantPorts_NodeOrNodePorts_NotTaken has a tenant's admin ask for ports of the node, and for
// the node port of another tenant's Service, first without a grant and then with one.
func TestTenantPorts_NodeOrNodePorts_NotTaken(t *testing.T) {
	t.Parallel()
	e := start(t)
	first, second := e.Nodes()
	victim, attacker := e.Tenant(t, stage.Overlapping("victim")), e.Tenant(t, stage.Overlapping("attacker"))
	namespace := attacker.Namespace.Name
	admin := e.adminOf(t, namespace)
	service := published(victim.Namespace.Name, "published", 0)
	e.Make(t, service)
	taken := service.Spec.Ports[0].NodePort
	server := victim.Pod("server", scene.OnNode(first), scene.WithLabel("app", "victim"))
	e.Run(t, server)
	victims := func(port int32) {
		t.Helper()
		for _, from := range []string{first, second} {
			var targets []string
			for _, node := range e.Lab.Nodes() {
				targets = append(targets, scene.TargetPort("tcp", node.IPv4, uint16(port)))
			}
			e.awaitAnswer(t, from, scene.ServerName(server.Namespace, server.Name), targets...)
		}
	}
	t.Run("without a grant", func(t *testing.T) { e.refusedWithoutGrant(t, admin, attacker, taken) })
	e.Grant(
		t,
		scene.HostAccess(attacker.Name, []string{attacker.Name}, fmt.Sprint(taken), fmt.Sprint(wantedPort), fmt.Sprint(laterPort)),
		namespace,
		asking(wantedPort),
	)
	t.Run("a node port, though it is granted", func(t *testing.T) {
		pod := attacker.Pod("thief", scene.OnNode(second), asking(taken))
		if err := admin.Create(stage.Within(t, stage.Patience), pod); err != nil {
			t.Fatal(err)
		}
		e.awaitEvent(t, pod, v1alpha1.HostPortConflictReason, "another tenant's Service")
		victims(taken)
	})
	mine := attacker.Pod("mine", scene.OnNode(second), asking(wantedPort), asking(laterPort))
	if err := admin.Start(stage.Within(t, stage.Patience), mine); err != nil {
		t.Fatal(err)
	}
	at := e.Lab.Nodes()[1]
	t.Run("what is granted it has", func(t *testing.T) {
		e.awaitAnswer(t, first, scene.ServerName(mine.Namespace, mine.Name),
			scene.TargetPort("tcp", at.IPv4, wantedPort), scene.TargetPort("tcp", at.IPv4, laterPort))
	})
	t.Run("a node port that comes later", func(t *testing.T) {
		e.Make(t, published(victim.Namespace.Name, "later", laterPort))
		e.awaitEvent(t, mine, v1alpha1.HostPortConflictReason, "another tenant's Service")
		victims(laterPort)
	})
	t.Run("what the node says to itself", func(t *testing.T) { e.nodeKeepsItsOwn(t, at.IPv4, second, first, mine) })
}

// refusedWithoutGrant has the tenant's admin try all ways to a port of the node and to
// its network.
func (e *env) refusedWithoutGrant(t *testing.T, admin *scene.Scene, attacker *scene.Tenant, taken int32) {
	const noPort, noNetwork = "no HostAccess grants ", "no HostAccess grants the network of the nodes to the tenant"
	wantRefused(t, admin, attacker.Pod("a", asking(taken)), noPort+fmt.Sprint(taken)+"/TCP")
	wantRefused(t, admin, attacker.Pod("b", asking(wantedPort)), noPort)
	wantRefused(t, admin, attacker.Pod("c", onHostNetwork), noNetwork)
	wantRefused(t, admin, scene.HostAccess(attacker.Name, []string{attacker.Name}, "1-65535"), "cannot create resource")
	wantRefused(t, admin, &v1alpha1.AdmissionGrants{
		ObjectMeta: metav1.ObjectMeta{Name: attacker.Name},
		HostAccess: map[string]v1alpha1.HostGrant{attacker.Name: {HostNetwork: true}},
	}, "cannot create resource")
	template := attacker.Pod("d", onHostNetwork, scene.WithLabel("app", "d"))
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: attacker.Namespace.Name, Name: "by-a-controller"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "d"}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec},
		},
	}
	if err := admin.Create(stage.Within(t, stage.Patience), deployment); err != nil {
		t.Fatal(err)
	}
	err := scene.Until(stage.Within(t, stage.Patience), "the Deployment to say why it has no pod", func(ctx context.Context) (bool, string, error) {
		err := admin.Client.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)
		for _, condition := range deployment.Status.Conditions {
			if condition.Type == appsv1.DeploymentReplicaFailure && strings.Contains(condition.Message, noNetwork) {
				return true, "", err
			}
		}
		return false, fmt.Sprintf("%+v", deployment.Status.Conditions), err
	})
	if err != nil {
		t.Error(err)
	}
}

// nodeKeepsItsOwn starts a program on the node that listens at the port of the
// attacker's pod, and asks it from the node. The other node is led to the pod, as
// before.
func (e *env) nodeKeepsItsOwn(t *testing.T, ip netip.Addr, node, other string, thief *corev1.Pod) {
	listener := e.onNodesNetwork(t, node, "--echo", fmt.Sprint(wantedPort))
	e.awaitAnswer(t, node, scene.ServerName(listener.Namespace, listener.Name),
		scene.TargetPort("tcp", netip.MustParseAddr("127.0.0.1"), wantedPort), scene.TargetPort("tcp", ip, wantedPort))
	e.awaitAnswer(t, other, scene.ServerName(thief.Namespace, thief.Name), scene.TargetPort("tcp", ip, wantedPort))
}
