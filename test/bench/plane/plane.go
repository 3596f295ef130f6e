// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package plane is a control plane without nodes: the lab's API server and etcd, the
// chart's roles and policies, and operators as processes of this machine with the rights
// that the chart gives them.
package plane

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
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
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

// Plane is a control plane without nodes, with a client of an administrator.
type Plane struct {
	client.WithWatch
	Server *apiserver.Server
	// Objects are the objects of the chart. The roles, the policies and the priorities of requests
	// among them are installed.
	Objects []*unstructured.Unstructured
	// Kubeconfig is the file with the operator's way to the API server.
	Kubeconfig string
	// Folder is for files of the run, which Stop removes.
	Folder string
	// operator is the program.
	operator string
}

// Server starts an API server: apiserver.New or apiserver.NewLarge.
type Server func(context.Context) (*apiserver.Server, error)

// New starts everything but operators, which are built from the work tree with this root folder. It
// calls step with its progress. The chart has these values; the operator's flags don't follow them.
// Stop ends and removes it all.
func New(ctx context.Context, root string, server Server, step func(string), values ...string) (c *Plane, err error) {
	step("starting an API server without nodes")
	c = &Plane{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if c.Folder, err = os.MkdirTemp("", "alioth-bench-"); err != nil {
		return c, fmt.Errorf("make a folder: %w", err)
	}
	if c.Server, err = server(ctx); err != nil {
		return c, err
	}
	scheme := runtime.NewScheme()
	err = errors.Join(
		clientgoscheme.AddToScheme(scheme),
		v1alpha1.AddToScheme(scheme),
		arktosv1.AddToScheme(scheme),
	)
	if err != nil {
		return c, err
	}
	if c.WithWatch, err = client.NewWithWatch(c.Server.Config(), client.Options{Scheme: scheme}); err != nil {
		return c, fmt.Errorf("connect to the API server: %w", err)
	}
	if c.Objects, err = Render(ctx, root, step, values...); err != nil {
		return c, err
	}
	if err := c.install(ctx, c.Objects); err != nil {
		return c, err
	}
	c.operator = filepath.Join(c.Folder, "alioth-operator")
	build := exec.CommandContext(ctx, "go", "build", "-o", c.operator, "./cmd/alioth-operator")
	build.Dir, build.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return c, fmt.Errorf("build the operator: %w\n%s", err, out)
	}
	return c, nil
}

// Stop ends and removes everything.
func (c *Plane) Stop() error {
	if c.Server != nil {
		c.Server.Stop()
	}
	return os.RemoveAll(c.Folder)
}

// Render returns the objects of the chart of a work tree, with values as NAME=VALUE.
func Render(
	ctx context.Context,
	root string,
	step func(string),
	values ...string,
) (_ []*unstructured.Unstructured, err error) {
	home, err := os.MkdirTemp("", "alioth-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for Helm: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(home)) }()
	helm, err := chart.Open(ctx, root, home, nil, step)
	if err != nil {
		return nil, err
	}
	var args []string
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return helm.Template(ctx, args...)
}

// install creates the roles, policies and priorities of requests among the chart's objects,
// and a token of the operator's ServiceAccount.
func (c *Plane) install(ctx context.Context, objects []*unstructured.Unstructured) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: chart.Namespace, Name: "alioth-operator"}}
	create := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: chart.Namespace}}, account}
	for _, object := range objects {
		switch object.GroupVersionKind().Group {
		case rbacv1.GroupName, admissionregistrationv1.GroupName, flowcontrolv1.GroupName:
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
	c.Kubeconfig = filepath.Join(c.Folder, "operator.kubeconfig")
	return chart.WriteKubeconfig(c.Kubeconfig, &rest.Config{Host: c.Server.Config().Host, BearerToken: token.Status.Token})
}

// Replica is a running operator.
type Replica struct {
	process         *exec.Cmd
	log             *os.File
	ended           chan struct{}
	health, metrics string
}

// Start starts an operator with more flags than the necessary ones; the caller ends it. name is the
// name of its log.
func (c *Plane) Start(ctx context.Context, name string, flags ...string) (*Replica, error) {
	r := &Replica{ended: make(chan struct{})}
	var err error
	if r.health, err = freeAddr(ctx); err != nil {
		return nil, err
	}
	if r.metrics, err = freeAddr(ctx); err != nil {
		return nil, err
	}
	if r.log, err = os.Create(filepath.Join(c.Folder, name+".log")); err != nil {
		return nil, fmt.Errorf("create the operator's log: %w", err)
	}
	flags = append([]string{
		"--kubeconfig=" + c.Kubeconfig, "--namespace=" + chart.Namespace,
		"--health-addr=" + r.health, "--metrics-addr=" + r.metrics, "--service-cidrs=" + apiserver.ServiceCIDR4 + "," + apiserver.ServiceCIDR6,
	}, flags...)
	r.process = exec.CommandContext(context.WithoutCancel(ctx), c.operator, flags...)
	r.process.Stdout, r.process.Stderr = r.log, r.log
	if err := r.process.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start the operator: %w", err), r.log.Close())
	}
	go func() {
		_ = r.process.Wait() // its log tells the cause of its end
		close(r.ended)
	}()
	return r, nil
}

// End sends a signal and waits until the process is gone. A second end does
// nothing.
func (r *Replica) End(signal syscall.Signal) {
	_ = r.process.Process.Signal(signal) // it may be gone
	<-r.ended
	_ = r.log.Close()
}

// PID returns the ID of the replica's process.
func (r *Replica) PID() int { return r.process.Process.Pid }

// Metrics returns the replica's metrics as text.
func (r *Replica) Metrics(ctx context.Context) (string, error) {
	return r.get(ctx, r.metrics, "/metrics")
}

// get returns the answer of a server of the replica, and an error unless the status is 200.
func (r *Replica) get(ctx context.Context, addr, path string) (string, error) {
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

// Ready waits until the replica's store is filled.
func (r *Replica) Ready(ctx context.Context) error {
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

// Leads waits until the replica leads.
func (r *Replica) Leads(ctx context.Context) error {
	return scene.Until(ctx, "the operator to lead", func(ctx context.Context) (bool, string, error) {
		leader, err := r.Count(ctx, "alioth_operator_leader", nil)
		return err == nil && leader == 1, fmt.Sprint(err), nil
	})
}

// Count adds up a counter or gauge over the series that match.
func (r *Replica) Count(ctx context.Context, name string, match func(labels map[string]string) bool) (float64, error) {
	text, err := r.Metrics(ctx)
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
