// Copyright The Alioth Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/alioth-net/alioth/test/cluster/build"
	"github.com/alioth-net/alioth/test/needs"
)

// Ranges that the server gives to Services.
const (
	ServiceCIDR4 = "10.96.0.0/16"
	ServiceCIDR6 = "fd96::/112"
)

// Names of the two binaries.
const (
	apiProgram  = "kube-apiserver"
	etcdProgram = "etcd"
)

// Variable names the environment variable with the minor version of Kubernetes whose API server
// the tests use, for example 1.35; without it they use the version of the lab.
const Variable = "ALIOTH_KUBERNETES"

// readyWithin bounds how long a server may take to serve. It is generous: the
// machine may be busy with other packages' tests.
const readyWithin = 2 * time.Minute

// Start starts a server for one test, with the CRDs installed, and returns the
// configuration of a cluster administrator (group system:masters). The server
// ends with the test.
func Start(t testing.TB) *rest.Config {
	t.Helper()
	needs.Kubernetes(t)
	s, err := New(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s.Config()
}

// Shared is a server that the tests of one package share. The zero value is
// ready for use; it must not be copied.
type Shared struct {
	once   sync.Once
	server *Server
	err    error
}

// Config starts the server if no test did before, and returns a copy of its
// administrator's configuration.
func (s *Shared) Config(t testing.TB) *rest.Config {
	t.Helper()
	return s.Server(t).Config()
}

// Server starts the server if no test did before, and returns it.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	needs.Kubernetes(t)
	s.once.Do(func() { s.server, s.err = New(context.WithoutCancel(t.Context())) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

// Run runs the tests of a package, stops the server and returns the exit code. TestMain passes this
// code to os.Exit.
func (s *Shared) Run(m *testing.M) int {
	code := m.Run()
	if s.server != nil {
		s.server.Stop()
	}
	return code
}

// Server is a running etcd and kube-apiserver with a data folder of their own.
type Server struct {
	dir    string
	etcd   *process
	api    *process
	config *rest.Config
	// storage is the URL of etcd.
	storage string
	// programs, and their arguments, are for starting them again.
	programs          programs
	etcdArgs, apiArgs []string
}

// New starts a server and returns when it is ready and the CRDs are
// established. The caller stops it.
func New(ctx context.Context) (*Server, error) {
	programs, err := find(ctx)
	if err != nil {
		return nil, err
	}
	return withCRDs(ctx, programs)
}

func withCRDs(ctx context.Context, programs programs) (*Server, error) {
	s, err := startAny(ctx, programs)
	if err != nil {
		return nil, err
	}
	if err := installCRDs(ctx, s.config); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// NewBare starts a server without Alioth's CRDs and returns when it is ready.
// The caller stops it.
func NewBare(ctx context.Context) (*Server, error) {
	programs, err := find(ctx)
	if err != nil {
		return nil, err
	}
	return startAny(ctx, programs)
}

// NewLarge does the same as New for many objects and clients: with the etcd that Kubernetes is
// released with, which is built when the cache lacks it. With Debian's the API server reads each
// consistent list from etcd, and can't stream lists. As in large clusters, it has several times as
// many requests in flight as by default.
func NewLarge(ctx context.Context) (*Server, error) {
	programs, err := find(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := ensure(ctx, build.Etcd())
	if err != nil {
		return nil, err
	}
	programs.etcd = filepath.Join(dir, etcdProgram)
	programs.more = []string{"--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000"}
	return withCRDs(ctx, programs)
}

// startAny starts both programs at ports that are free.
func startAny(ctx context.Context, programs programs) (_ *Server, err error) {
	// A port that was free a moment ago may be taken when the program binds it, so the start is
	// tried again with other ports.
	for range 3 {
		var s *Server
		if s, err = start(ctx, programs); err == nil {
			return s, nil
		}
		if !errors.Is(err, errEnded) {
			break
		}
	}
	return nil, fmt.Errorf("start an API server for tests: %w", err)
}

// Config returns a copy of the administrator's configuration, without a limit
// on the rate of requests.
func (s *Server) Config() *rest.Config {
	return rest.CopyConfig(s.config)
}

// Storage returns the URL where etcd serves without authentication. Objects that are written there
// pass no admission.
func (s *Server) Storage() string { return s.storage }

// Processes returns the IDs of both programs' processes, by name.
func (s *Server) Processes() map[string]int {
	return map[string]int{apiProgram: s.api.cmd.Process.Pid, etcdProgram: s.etcd.cmd.Process.Pid}
}

// Stop ends both programs and deletes their data.
func (s *Server) Stop() {
	for _, p := range []*process{s.api, s.etcd} {
		if p != nil {
			p.stop()
		}
	}
	// Nothing depends on the folder any more, and the system cleans the
	// folder for temporary files anyway.
	_ = os.RemoveAll(s.dir)
}

// Interrupt kills the API server; its data stays. Resume brings it back.
func (s *Server) Interrupt() { s.api.stop() }

// Resume starts the API server again after Interrupt, at the same address and
// with the same data, and returns when it is ready.
func (s *Server) Resume(ctx context.Context) (err error) {
	if s.api, err = launch(ctx, s.dir, apiProgram, s.programs.api, s.apiArgs...); err != nil {
		return err
	}
	return s.waitReady(ctx)
}

// programs are the paths of the two binaries.
type programs struct {
	etcd, api string
	// more are further arguments of the API server.
	more []string
}

// find returns the binaries; the API server's is built when the cache lacks it.
func find(ctx context.Context) (programs, error) {
	etcd, err := exec.LookPath("etcd")
	if err != nil {
		return programs{}, fmt.Errorf("find etcd: %w; install Debian's package etcd-server", err)
	}
	dir, err := ensure(ctx, build.Kubernetes(os.Getenv(Variable)))
	if err != nil {
		return programs{}, err
	}
	return programs{etcd: etcd, api: filepath.Join(dir, apiProgram)}, nil
}

// ensure returns the folder with the binaries of a program, and builds it when the cache
// lacks it.
func ensure(ctx context.Context, program build.Program) (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	cache, err := build.DefaultCache()
	if err != nil {
		return "", err
	}
	builder := build.Builder{Root: root, Cache: cache, Progress: func(line string) { fmt.Fprintln(os.Stderr, line) }}
	return builder.Ensure(ctx, program)
}

// moduleRoot returns the project's root: tests run in their package's folder.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the project's root: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "test", "cluster", "kubernetes", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find the project's root: no folder above holds test/cluster/kubernetes")
		}
		dir = parent
	}
}
