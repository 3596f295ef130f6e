// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	arktosv1 "github.com/alioth-net/alioth/api/arktos/v1"
	"github.com/alioth-net/alioth/api/v1alpha1"
	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/api/chart"
	"github.com/alioth-net/alioth/test/e2e/scene"
)

// control is a control plane without nodes: the lab's API server and etcd,
// the chart's roles and policies, and operators as processes of this machine
// with the rights that the chart gives them.
type control struct {
	client.WithWatch
	server *apiserver.Server
	folder string
	// operator is the program, kubeconfig its way to the API server.
	operator, kubeconfig string
}

// newControl starts everything but operators; stop ends and removes it.
func (b *Bench) newControl(ctx context.Context) (c *control, err error) {
	b.step("starting an API server without nodes")
	c = &control{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.stop())
		}
	}()
	if c.folder, err = os.MkdirTemp("", "alioth-bench-"); err != nil {
		return c, fmt.Errorf("make a folder: %w", err)
	}
	if c.server, err = apiserver.New(ctx); err != nil {
		return c, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme), arktosv1.AddToScheme(scheme)); err != nil {
		return c, err
	}
	if c.WithWatch, err = client.NewWithWatch(c.server.Config(), client.Options{Scheme: scheme}); err != nil {
		return c, fmt.Errorf("connect to the API server: %w", err)
	}
	objects, err := b.render(ctx)
	if err != nil {
		return c, err
	}
	if err := c.install(ctx, objects); err != nil {
		return c, err
	}
	c.operator = filepath.Join(c.folder, "alioth-operator")
	build := exec.CommandContext(ctx, "go", "build", "-o", c.operator, "./cmd/alioth-operator")
	build.Dir, build.Env = b.root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return c, fmt.Errorf("build the operator: %w\n%s", err, out)
	}
	return c, nil
}

func (c *control) stop() error {
	if c.server != nil {
		c.server.Stop()
	}
	return os.RemoveAll(c.folder)
}

// render returns what the chart consists of.
func (b *Bench) render(ctx context.Context) (_ []*unstructured.Unstructured, err error) {
	home, err := os.MkdirTemp("", "alioth-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for Helm: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	helm, err := chart.Open(ctx, b.root, home, nil, b.step)
	if err != nil {
		return nil, err
	}
	return helm.Template(ctx)
}

// install creates the roles and policies among the chart's objects, and a token
// of the operator's ServiceAccount.
func (c *control) install(ctx context.Context, objects []*unstructured.Unstructured) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: chart.Namespace, Name: "alioth-operator"}}
	create := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chart.Namespace}}, account}
	for _, object := range objects {
		switch object.GroupVersionKind().Group {
		case rbacv1.GroupName, admissionregistrationv1.GroupName:
			create = append(create, object)
		}
	}
	for _, object := range create {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("create %s: %w", object.GetName(), err)
		}
	}
	token := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(ctx, account, token); err != nil {
		return fmt.Errorf("get a token for the operator: %w", err)
	}
	c.kubeconfig = filepath.Join(c.folder, "operator.kubeconfig")
	return chart.WriteKubeconfig(c.kubeconfig, &rest.Config{Host: c.server.Config().Host, BearerToken: token.Status.Token})
}

// replica is a running operator.
type replica struct {
	process         *exec.Cmd
	log             *os.File
	ended           chan struct{}
	health, metrics string
}

// start starts an operator; the caller ends it. name is that of its log.
func (c *control) start(ctx context.Context, name string) (*replica, error) {
	r := &replica{ended: make(chan struct{})}
	var err error
	if r.health, err = freeAddr(ctx); err != nil {
		return nil, err
	}
	if r.metrics, err = freeAddr(ctx); err != nil {
		return nil, err
	}
	if r.log, err = os.Create(filepath.Join(c.folder, name+".log")); err != nil {
		return nil, fmt.Errorf("create the operator's log: %w", err)
	}
	r.process = exec.CommandContext(context.WithoutCancel(ctx), c.operator, "--kubeconfig="+c.kubeconfig, "--namespace="+chart.Namespace,
		"--health-addr="+r.health, "--metrics-addr="+r.metrics, "--service-cidrs="+apiserver.ServiceCIDR4+","+apiserver.ServiceCIDR6)
	r.process.Stdout, r.process.Stderr = r.log, r.log
	if err := r.process.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the operator: %w", err), r.log.Close())
	}
	go func() {
		_ = r.process.Wait() // how it ended is told by its log
		close(r.ended)
	}()
	return r, nil
}

// end sends a signal and waits until the process is gone. A second end does
// nothing.
func (r *replica) end(signal syscall.Signal) {
	_ = r.process.Process.Signal(signal) // it may be gone
	<-r.ended
	_ = r.log.Close()
}

// get returns what a server of the replica answers, an error unless it is 200.
func (r *replica) get(ctx context.Context, addr, path string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %d", path, response.StatusCode)
	}
	return string(body), err
}

// ready waits until the replica's store is filled.
func (r *replica) ready(ctx context.Context) error {
	return scene.Until(ctx, "the operator to be ready", func(ctx context.Context) (bool, string, error) {
		select {
		case <-r.ended:
			return false, "", fmt.Errorf("the operator ended, see %s", r.log.Name())
		default:
		}
		_, err := r.get(ctx, r.health, "/readyz")
		return err == nil, fmt.Sprint(err), nil
	})
}

// leads waits until the replica leads.
func (r *replica) leads(ctx context.Context) error {
	return scene.Until(ctx, "the operator to lead", func(ctx context.Context) (bool, string, error) {
		leader, err := r.count(ctx, "alioth_operator_leader", nil)
		return err == nil && leader == 1, fmt.Sprint(err), nil
	})
}

// count adds up a counter or gauge over the series that match.
func (r *replica) count(ctx context.Context, name string, match func(labels map[string]string) bool) (float64, error) {
	text, err := r.get(ctx, r.metrics, "/metrics")
	if err != nil {
		return 0, err
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		return 0, fmt.Errorf("read the operator's metrics: %w", err)
	}
	var sum float64
	for _, metric := range families[name].GetMetric() {
		labels := map[string]string{}
		for _, label := range metric.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		if match == nil || match(labels) {
			sum += metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	return sum, nil
}

func freeAddr(ctx context.Context) (string, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), listener.Close()
}

// tenant makes a tenant with a VPC, one IPv4 subnet and a default Network, all
// of one name, and waits until pods can use it.
func (c *control) tenant(ctx context.Context, name string) error {
	vpc := &v1alpha1.VPC{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.VPCSpec{CIDRs: []string{"10.50.0.0/16"}, AllowedTenants: []string{name}},
	}
	network := &arktosv1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: arktosv1.DefaultNetwork},
		Spec:       arktosv1.NetworkSpec{Type: arktosv1.TypeMizar, VPCID: name},
	}
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.TenantLabel: name}}},
		vpc, &v1alpha1.Subnet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.SubnetSpec{VPC: name, CIDRs: []string{"10.50.0.0/20"}}},
		network,
	} {
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, name, err)
		}
	}
	return scene.Until(ctx, "Network "+name+" to be ready", func(ctx context.Context) (bool, string, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(network), network); err != nil {
			return false, "", err
		}
		for _, condition := range network.Status.Conditions {
			if condition.Type == v1alpha1.ReadyCondition && condition.Status == metav1.ConditionTrue {
				return true, "", nil
			}
		}
		return false, fmt.Sprint(network.Status.Conditions), nil
	})
}

// nodes makes Node objects for so many pods of a namespace.
func (c *control) nodes(ctx context.Context, namespace string, pods int) error {
	for i := 0; i < pods; i += podsPerNode {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeOf(namespace, i)}}
		if err := c.Create(ctx, node); err != nil {
			return fmt.Errorf("create node %s: %w", node.Name, err)
		}
	}
	return nil
}

func nodeOf(namespace string, pod int) string {
	return fmt.Sprintf("%s-node-%d", namespace, pod/podsPerNode)
}

// podName is that of a namespace's pod by its number.
func podName(i int) string { return fmt.Sprintf("pod-%04d", i) }

// schedule makes a pod that is bound to a node that runs nothing.
func (c *control) schedule(ctx context.Context, namespace string, i int) error {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: podName(i)},
		Spec: corev1.PodSpec{
			NodeName: nodeOf(namespace, i), AutomountServiceAccountToken: new(bool),
			Containers: []corev1.Container{{Name: "main", Image: "example.com/none"}},
		},
	}
	if err := c.Create(ctx, pod); err != nil {
		return fmt.Errorf("create pod %s/%s: %w", namespace, pod.Name, err)
	}
	return nil
}
