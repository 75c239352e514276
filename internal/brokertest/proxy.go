package brokertest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// TCPProxy stands between a client and a broker and spoils the connection on demand.
type TCPProxy struct {
	Address string // host:port to connect to

	t        testing.TB
	target   string
	mutex    sync.Mutex
	changed  *sync.Cond // stalled or closed
	listener net.Listener
	pairs    map[*pair]bool
	delay    time.Duration
	left     int64 // bytes to the broker until the cut; below zero: no limit
	sent     int64
	stalled  bool
	closed   bool
	running  sync.WaitGroup
}

// A pair is one client's connection and the one to the broker behind it.
type pair struct{ client, server net.Conn }

// Proxy starts a proxy on loopback to host:port ([Broker.AMQPAddress], say). It ends with the test.
func Proxy(t testing.TB, target string) *TCPProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &TCPProxy{Address: listener.Addr().String(), t: t, target: target, listener: listener, pairs: map[*pair]bool{}, left: -1}
	p.changed = sync.NewCond(&p.mutex)
	p.running.Go(func() { p.accept(listener) })
	t.Cleanup(p.close)
	return p
}

// Cut resets all connections. New ones are served.
func (p *TCPProxy) Cut() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.cut()
}

func (p *TCPProxy) cut() {
	for pair := range p.pairs {
		pair.reset()
	}
	clear(p.pairs)
	p.changed.Broadcast()
}

// Refuse makes the proxy refuse new connections, as a host does where nothing listens, or accept them again. Connections that
// are there stay: see Cut.
func (p *TCPProxy) Refuse(refuse bool) {
	p.t.Helper()
	p.mutex.Lock()
	defer p.mutex.Unlock()
	switch {
	case refuse && p.listener != nil:
		p.listener.Close()
		p.listener = nil
	case !refuse && p.listener == nil:
		listener, err := net.Listen("tcp", p.Address)
		for range 20 { // somebody's outgoing connection may have the port for a moment
			if err == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
			listener, err = net.Listen("tcp", p.Address)
		}
		if err != nil {
			p.t.Fatalf("proxy: listen again: %v", err)
		}
		p.listener = listener
		p.running.Go(func() { p.accept(listener) })
	}
}

// Delay holds back every piece of data, in both directions, for d.
func (p *TCPProxy) Delay(d time.Duration) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.delay = d
}

// Stall holds all data back until it is called with false: the connections stay and nothing arrives.
func (p *TCPProxy) Stall(stall bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.stalled = stall
	p.changed.Broadcast()
}

// CutAfterBytes resets all connections, once, when n more bytes have gone to the broker. They do arrive there.
func (p *TCPProxy) CutAfterBytes(n int64) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.left = n
}

// BytesSent returns how many bytes have gone to the broker.
func (p *TCPProxy) BytesSent() int64 {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.sent
}

// Connections returns the number of open connections.
func (p *TCPProxy) Connections() int {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.pairs)
}

func (p *TCPProxy) close() {
	p.mutex.Lock()
	p.closed = true
	if p.listener != nil {
		p.listener.Close()
	}
	p.cut()
	p.mutex.Unlock()
	p.running.Wait()
}

func (p *TCPProxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(client) })
	}
}

func (p *TCPProxy) serve(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.target, 5*time.Second)
	if err != nil {
		(&pair{client: client}).reset()
		return
	}
	pair := &pair{client, server}
	p.mutex.Lock()
	if p.closed {
		p.mutex.Unlock()
		pair.reset()
		return
	}
	p.pairs[pair] = true
	p.mutex.Unlock()

	p.running.Go(func() { p.copy(pair, client, server) })
	p.copy(pair, server, client)
}

func (p *TCPProxy) copy(pair *pair, destination, source net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := source.Read(buffer)
		data, cut := p.pass(pair, buffer[:n], destination == pair.server)
		if len(data) > 0 {
			if _, err := destination.Write(data); err != nil {
				break
			}
		}
		if cut {
			p.Cut()
			return
		}
		if err == io.EOF { // the other direction may still have something to say
			destination.(*net.TCPConn).CloseWrite()
			return
		}
		if err != nil {
			break
		}
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	delete(p.pairs, pair)
	pair.client.Close()
	pair.server.Close()
}

// pass waits as long as the data is to be held back, and returns how much of it may go and whether that was the last.
func (p *TCPProxy) pass(pair *pair, data []byte, toServer bool) (part []byte, cut bool) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if delay := p.delay; delay > 0 && len(data) > 0 {
		p.mutex.Unlock()
		time.Sleep(delay)
		p.mutex.Lock()
	}
	for p.stalled && !p.closed && p.pairs[pair] {
		p.changed.Wait()
	}
	if !toServer {
		return data, false
	}
	if p.left >= 0 && int64(len(data)) >= p.left {
		data, cut = data[:p.left], true
		p.left = -1
	} else if p.left >= 0 {
		p.left -= int64(len(data))
	}
	p.sent += int64(len(data))
	return data, cut
}

// reset ends the client's connection with RST, as a crash or a firewall does; a plain close would look like a shutdown in order.
// The broker's end is closed plainly, so that what was sent arrives.
func (p *pair) reset() {
	if tcp, ok := p.client.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	p.client.Close()
	if p.server != nil {
		p.server.Close()
	}
}
