// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/alioth-net/alioth/test/api/apiserver"
	"github.com/alioth-net/alioth/test/freeport"
)

// gateway is one replica's way to the API server. It remembers every request.
type gateway struct {
	*httptest.Server

	// holds selects requests that get no answer; nil for none. It does not change.
	holds func(request) bool

	mu       sync.Mutex
	requests []request
}

type request struct{ method, path, query string }

func (r request) lease() bool { return strings.Contains(r.path, "/leases/") }

func (r request) watch() bool {
	return r.method == http.MethodGet && strings.Contains(r.query, "watch=true")
}

func (r request) write() bool { return r.method != http.MethodGet }

func newGateway(t *testing.T, config *rest.Config) *gateway {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Header.Set("Authorization", "Bearer "+config.BearerToken)
		},
		FlushInterval: -1, // watch events go at once
		// The server signs its own certificate afresh in each run.
		Transport:    &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, MaxIdleConnsPerHost: 32},
		ErrorLog:     log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // as if nobody were there
	}
	g := &gateway{}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		this := request{r.Method, r.URL.Path, r.URL.RawQuery}
		g.mu.Lock()
		g.requests = append(g.requests, this)
		g.mu.Unlock()
		if g.holds != nil && g.holds(this) {
			<-r.Context().Done()
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		g.CloseClientConnections()
		g.Close()
	})
	return g
}

// since returns the requests from the n-th on.
func (g *gateway) since(n int) []request {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]request(nil), g.requests[n:]...)
}

// kubeconfig writes a file that leads through the gateway.
func (g *gateway) kubeconfig(t *testing.T) string {
	t.Helper()
	return writeKubeconfig(t, &clientcmdapi.Cluster{Server: g.URL}, &clientcmdapi.AuthInfo{})
}

// writeKubeconfig writes a file that leads a user to a cluster.
func writeKubeconfig(t *testing.T, cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo) string {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["test"], c.AuthInfos["test"] = cluster, user
	c.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	c.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*c, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// replica is an operator as a process of its own.
type replica struct {
	*child
	t *testing.T
	// gateway is nil without one.
	gateway         *gateway
	health, metrics string
}

// startReplica starts an operator with a gateway of its own, see newReplica.
func startReplica(t *testing.T, config *rest.Config, namespace string, flags ...string) *replica {
	t.Helper()
	return newReplica(t, newGateway(t, config), namespace, flags...)
}

// startDirect starts an operator without a gateway, see launch.
func startDirect(t *testing.T, config *rest.Config, namespace string) *replica {
	t.Helper()
	cluster := &clientcmdapi.Cluster{Server: config.Host, InsecureSkipTLSVerify: true} // as the gateway does
	return launch(t, writeKubeconfig(t, cluster, &clientcmdapi.AuthInfo{Token: config.BearerToken}), namespace)
}

// newReplica starts an operator behind a gateway, see launch.
func newReplica(t *testing.T, g *gateway, namespace string, flags ...string) *replica {
	t.Helper()
	r := launch(t, g.kubeconfig(t), namespace, flags...)
	r.gateway = g
	return r
}

// launch starts an operator whose lease is in a namespace, with more flags than the necessary ones.
func launch(t *testing.T, kubeconfig, namespace string, flags ...string) *replica {
	t.Helper()
	r := &replica{t: t, health: freeport.Loopback(t), metrics: freeport.Loopback(t)}
	r.child = spawn(t, asOperator, append([]string{
		"--kubeconfig=" + kubeconfig, "--namespace=" + namespace,
		"--health-addr=" + r.health, "--metrics-addr=" + r.metrics, "--default-vpc=no-such-default",
		"--service-cidrs=" + apiserver.ServiceCIDR4,
	}, flags...)...)
	return r
}

// child is this test binary as another process.
type child struct {
	process *os.Process
	// ended is closed once the process has ended with status.
	ended  chan struct{}
	status error
}

// spawn starts a child in the part that an environment variable gives it. It is killed with the
// test, and with this process.
func spawn(t *testing.T, part string, args ...string) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), part+"=1")
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	c, started := &child{ended: make(chan struct{})}, make(chan error)
	go func() {
		// Pdeathsig follows the thread that forked: keep it until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			c.status = cmd.Wait()
			close(c.ended)
		}
	}()
	if err := <-started; err != nil {
		t.Fatal(err)
	}
	c.process = cmd.Process
	t.Cleanup(c.kill)
	return c
}

// kill ends the child, if it has not ended before, and waits for its end.
func (c *child) kill() {
	_ = c.process.Kill()
	<-c.ended
}

func (r *replica) signal(s syscall.Signal) {
	r.t.Helper()
	if err := r.process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

func (r *replica) alive() error {
	select {
	case <-r.ended:
		return fmt.Errorf("the process ended: %w", r.status)
	default:
		return nil
	}
}

// get returns the answer of a server of the replica, and an error unless the status is 200.
func (r *replica) get(addr, path string) (string, error) {
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+addr+path, nil)
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
		err = fmt.Errorf("%s answers %d: %s", path, response.StatusCode, body)
	}
	return string(body), err
}

func (r *replica) ready() error {
	if err := r.alive(); err != nil {
		return err
	}
	_, err := r.get(r.health, "/readyz")
	return err
}

// metric reads a metric without labels.
func (r *replica) metric(name string) (float64, error) {
	text, err := r.get(r.metrics, "/metrics")
	if err != nil {
		return 0, err
	}
	match := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindStringSubmatch(text)
	if match == nil {
		return 0, fmt.Errorf("no metric %s", name)
	}
	return strconv.ParseFloat(match[1], 64)
}

// is makes a check of a metric's value.
func (r *replica) is(name string, want float64) func() error {
	return func() error {
		if err := r.alive(); err != nil {
			return err
		}
		got, err := r.metric(name)
		if err == nil && got != want {
			err = fmt.Errorf("%s is %g, want %g", name, got, want)
		}
		return err
	}
}

func (r *replica) leads() error { return r.is("alioth_operator_leader", 1)() }
