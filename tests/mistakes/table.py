"""Mistakes that authors make, and what they are told: the rows of docs/reference/mistakes.md."""

from typing import NamedTuple


class Mistake(NamedTuple):
    wrote: str  # the program, in the namespace of `making.py`
    told: str  # all of the message, `…` standing for what differs from run to run


CLASSES = [
    Mistake(
        "class Mine(Agent):\n    def answer(self, turn): ...",
        "Mine.answer must be `async def`: it is awaited",
    ),
    Mistake(
        "class Mine(Agent):\n    async def answer(self, turn):\n        yield 'hello'",
        "Mine.answer must not yield: it is awaited. Use `await turn.say(…)` and the like",
    ),
    Mistake(
        "class Mine(Client):\n    async def update(self, params): ...",
        "Mine.update must be `def`, not `async def`: it is called and not awaited",
    ),
    Mistake(
        "class Mine(Agent):\n    async def cancel(self, params): ...",
        "Mine.cancel must be `def`, not `async def`: it is called and not awaited",
    ),
    Mistake(
        "class Mine(Agent):\n    def new_session(self, params): ...",
        "Mine.new_session must be `async def`: it is awaited",
    ),
    Mistake(
        "class Mine(Client):\n    def session_update(self, params): ...",
        "Mine.session_update is never called: did you mean update?",
    ),
    Mistake(
        "class Mine(Agent):\n    async def set_session_mode(self, params): ...",
        "Mine.set_session_mode is never called: did you mean set_mode?",
    ),
    Mistake(
        "class Mine(Agent):\n    async def ext_method(self, method, params): ...",
        'Mine.ext_method is never called: did you mean @extension("_name")?',
    ),
    Mistake(
        "class Mine(Agent):\n    async def anwser(self, turn): ...",
        "Mine.anwser is never called: did you mean answer?",
    ),
    Mistake(
        "class Mine(Client):\n    async def requestPermission(self, params): ...",
        "Mine.requestPermission is never called: did you mean request_permission?",
    ),
    Mistake(
        "class Mine(Agent):\n    @extension('_acme/ping')\n    async def ping(self, params: 'Pong'): ...",
        "@extension('_acme/ping') on Mine.ping: the type of its parameter is not known here: "
        "name 'Pong' is not defined",
    ),
    Mistake("extension('acme/ping')", "an extension's name starts with an underscore: 'acme/ping'"),
    Mistake(
        "class Mine(Agent):\n    async def answer(self): ...",
        "Mine.answer is called as answer(self, turn): too many positional arguments",
    ),
    Mistake(
        "class Mine(Agent):\n    async def answer(self, turn, more): ...",
        "Mine.answer is called as answer(self, turn): missing a required argument: 'more'",
    ),
    Mistake("class Mine(Agent):\n    answer = None", "Mine.answer must be a method: async def answer(self, …)"),
    Mistake(
        "class Mine(Agent):\n    accepts = 'image'", "Mine.accepts is a set of words: write accepts = {'image'}"
    ),
    Mistake(
        "class Mine(Agent):\n    modes = ['ask', 'code']",
        "Mine.modes cannot be sent: Expected `object`, got `str` - at `$[0]`",
    ),
    Mistake(
        "class Mine(Agent):\n    commands = ['plan']",
        "Mine.commands cannot be sent: Expected `object`, got `str` - at `$[0]`",
    ),
    Mistake(
        "class Mine(Agent):\n    info = 'My agent'",
        "Mine.info cannot be sent: Expected `object | null`, got `str` - at `$`",
    ),
    Mistake(
        "class Mine(Agent):\n    @extension\n    async def ping(self, params): ...",
        'extension takes the name of a method of the protocol: write @extension("_name")',
    ),
    Mistake(
        "class Mine(Agent):\n    @extension('_acme/ping')\n    async def ping(self, params):\n        yield 1",
        "@extension('_acme/ping') on Mine.ping must not yield: it is awaited",
    ),
    Mistake(
        "class Mine(Agent):\n"
        "    @extension('_acme/ping')\n"
        "    async def ping(self, params): ...\n"
        "    @extension('_acme/ping')\n"
        "    async def pong(self, params): ...",
        "Mine.ping and Mine.pong both answer _acme/ping",
    ),
]

TURNS = [
    Mistake("await turn.say(None)", "a text or a content block can be said, not None"),
    Mistake("await turn.say(5)", "a text or a content block can be said, not 5"),
    Mistake("await turn.think(['a'])", "a text or a content block can be said, not ['a']"),
    Mistake(
        "await turn.plan(['read', 'write'])",
        "plan() takes its steps one by one, plan('a', 'b'), and not ['read', 'write']",
    ),
    Mistake(
        "async with turn.tool('Edit', kind='editing'): ...",
        "this ToolCall cannot be sent: Invalid enum value 'editing' - at `$.kind`",
    ),
    Mistake(
        "turn.tool('Edit', locations='a.py')",
        "locations is a list of paths: write locations=['a.py']",
    ),
    Mistake(
        "async with turn.tool(7): ...",
        "this ToolCall cannot be sent: Expected `str`, got `int` - at `$.title`",
    ),
    Mistake(
        "return 'Hello'",
        "answer() returned 'Hello', which is no stop reason (end_turn, max_tokens, max_turn_requests, refusal, "
        "cancelled). Return nothing when the turn is done, and say things with `await turn.say(…)`",
    ),
    Mistake(
        "await turn.read('a.py')",
        "fs/read_text_file needs the capability fs.read_text_file, which the peer does not offer",
    ),
    Mistake("await turn.elicit('Name?', s.ElicitationSchema())", "the client does not offer elicitation.form"),
    Mistake(
        "await asyncio.to_thread(asyncio.run, turn.say('from a thread'))",
        "this connection belongs to another event loop: call it there, with asyncio.run_coroutine_threadsafe or "
        "loop.call_soon_threadsafe, or use dragoman.blocking, which any thread may call",
    ),
    Mistake(
        "turn.tool('Edit', locations=Path('a.py'))",
        "locations is a list of paths: write locations=[PosixPath('a.py')]",
    ),
    Mistake(
        "await turn.update({'sessionUpdate': 'plan', 'entries': [b'read']})",
        "this dict cannot be sent: Expected `object`, got `str` - at `$.entries[0]`",
    ),
    Mistake(
        "async with turn.tool('Edit') as call:\n    await call.diff('a.py', 'old', b'new')",
        "this ToolCallUpdated cannot be sent: it holds bytes, b'new'; decode them to a text first",
    ),
    Mistake(
        "async with turn.tool('Edit') as call:\n    call.fail(None)",
        "fail() takes the reason as a text, and not None",
    ),
    Mistake(
        "async with turn.tool('Test') as call:\n    await call.terminal('term-1')",
        "terminal() shows what `turn.terminal(…)` gives, and not 'term-1'",
    ),
    Mistake(
        "async with turn.tool('Read', raw_input=object()): ...",
        "an object of type object cannot be written as JSON",
    ),
    Mistake(
        "await turn.ask('May I?')",
        "this session/request_permission cannot be sent: Expected `object`, got `str` - at `$.toolCall`",
    ),
    Mistake("async with turn.terminal('ls', env=['A=1']): ...", "env= is a dictionary of texts, and not ['A=1']"),
]

CONNECTING = [
    Mistake(
        "async with connect(None): ...",
        "connect takes a command, a URL, a transport or an agent class, and not None",
    ),
    Mistake(
        "async with connect(5): ...",
        "connect takes a command, a URL, a transport or an agent class, and not 5",
    ),
    Mistake(
        "async with connect(Echo()): ...",
        "an agent is made for each client: give the class, Echo, and not Echo()",
    ),
    Mistake(
        "class Mine(Agent):\n    def __init__(self): ...\nasync with connect(Mine): ...",
        "the agent hung up before it answered initialize: the other side failed: an agent is made as "
        "…Mine(client): too many positional arguments. For more arguments give a function that takes the client",
    ),
    Mistake(
        "async with connect(Proxy): ...",
        "connect takes a command, a URL, a transport or an agent class, and not the proxy class Proxy alone: "
        "compose(Proxy, agent)",
    ),
    Mistake(
        "compose(Proxy, None)",
        "compose takes a command, a URL, a transport or an agent class, and not None",
    ),
    Mistake(
        "async with connect(Echo) as client:\n"
        "    session = await client.new_session()\n"
        "    for event in session.prompt('hello'): ...",
        "use `async for event in session.prompt(…):`, or await it for the response alone",
    ),
    Mistake(
        "async with connect(Echo) as client:\n"
        "    session = await client.new_session()\n"
        "    async with session.prompt('hello') as turn: ...",
        "use `async with contextlib.aclosing(session.prompt(…)) as turn:`",
    ),
    Mistake(
        "with blocking.connect(Echo) as client:\n"
        "    async def work():\n"
        "        return client.new_session()\n"
        "    client.run(work())",
        "this waits for itself: here, in the client's own thread, await the asynchronous client",
    ),
    Mistake(
        "with blocking.connect(Echo) as client:\n    client.run(5)",
        "run() takes a coroutine of the asynchronous client, and not 5",
    ),
    Mistake(
        "async with connect(Echo(None)): ...",
        "connect takes a command, a URL, a transport or an agent class, and not an agent object: "
        "write connect(Echo)",
    ),
    Mistake(
        "async with connect(Echo, headers={'a': 'b'}): ...",
        "headers= is for a URL, and the agent was given as an agent class",
    ),
    Mistake(
        "async with connect('ws://127.0.0.1:9/', cwd='/'): ...",
        "cwd= is for a command, and the agent was given as a URL",
    ),
    Mistake(
        "async with connect(Echo, env={'A': 'b'}): ...",
        "env= is for a command, and the agent was given as an agent class",
    ),
    Mistake(
        "async with connect(Path('/nonexistent/agent')): ...",
        "cannot start '/nonexistent/agent': no such file or directory: /nonexistent/agent",
    ),
    Mistake(
        "mine = Client()\nasync with connect(Echo, mine), connect(Echo, mine): ...",
        "this client is connected already; make a Client for each connection",
    ),
    Mistake(
        "async with connect(Echo) as client:\n"
        "    session = await client.new_session()\n"
        "    await asyncio.to_thread(session.cancel)",
        "this connection belongs to another event loop: call it there, with asyncio.run_coroutine_threadsafe or "
        "loop.call_soon_threadsafe, or use dragoman.blocking, which any thread may call",
    ),
    Mistake(
        "async with connect(Echo) as client:\n    await client.agent.request('_acme/ping', None, object())",
        "the result of _acme/ping cannot be read: …",
    ),
    Mistake(
        "with blocking.connect(Echo) as client:\n    session = client.new_session()\nsession.prompt('too late')",
        "this client is closed; open another with blocking.connect",
    ),
    Mistake("client = await connect(Echo)", "use `async with connect(…) as client:`"),
    Mistake(
        "with connect(Echo) as client: ...",
        "use `async with connect(…) as client:`; without an event loop, `with "
        "dragoman.blocking.connect(…) as client:`",
    ),
    Mistake(
        "client = connect(Echo)\nawait client.new_session()",
        "there is no new_session before the agent is reached: use `async with connect(…) as client:`",
    ),
    Mistake(
        "opened = connect(Echo)\nasync with opened: ...\nasync with opened: ...",
        "this was used in an `async with` before: make another one",
    ),
    Mistake(
        "async with connect(Echo, Client): ...",
        "connect takes an agent and then a client object, and not a class: write Client()",
    ),
    Mistake(
        "async with connect(Client): ...",
        "connect takes a command, a URL, a transport or an agent class, and not the client class Client",
    ),
    Mistake(
        "async with connect(lambda client: None): ...",
        "the agent hung up before it answered initialize: the other side failed: … must give an agent, "
        "and not None",
    ),
    Mistake(
        "class Mine(Agent):\n    async def __aenter__(self): ...\nasync with connect(Mine): ...",
        "the agent hung up before it answered initialize: the other side failed: __aenter__ must return "
        "the agent (`return self`), and not None",
    ),
    Mistake("async with connect(['my-agent', 5]): ...", "the words of a command are texts, and not 5"),
    Mistake(
        "async with connect('my-agent', env={'DEBUG': 1}): ...",
        "env= is a dictionary of texts, and not {'DEBUG': 1}",
    ),
    Mistake(
        "async with connect('my-agent', on_stderr='log.txt'): ...",
        "on_stderr= is a function that is given bytes, and not 'log.txt'",
    ),
    Mistake(
        "client = Client()\nawait client.new_session()",
        "this client is not connected: use `async with connect(agent, client):`",
    ),
    Mistake(
        "class Mine(Client):\n    def __init__(self): ...\nasync with connect(Echo, Mine()): ...",
        "Mine.__init__ must call super().__init__() first",
    ),
    Mistake(
        "serve(Echo)",
        "serve() runs an event loop of its own, and one runs here already: call it outside of `async "
        "def`, or use `await serve_on(agent, transport)`",
    ),
    Mistake(
        "await serve_on(Echo(None), None)",
        "serve_on takes an agent class, and not an agent object: write serve_on(Echo)",
    ),
    Mistake("await serve_on(Echo, None)", "serve_on takes an agent class and a transport, and not None"),
    Mistake(
        "streams(None, None)", "streams takes an asyncio.StreamReader and then a StreamWriter, and not None, None"
    ),
    Mistake(
        "compose(Echo, Proxy)",
        "compose takes proxy classes and then an agent, and Echo is not a proxy class",
    ),
    Mistake(
        "async with connect(Echo) as client:\n"
        "    session = await client.new_session()\n"
        "    await session.prompt(['hello'])",
        "prompt() takes a text, a content block or a list of content blocks, and not ['hello']",
    ),
    Mistake(
        "async with connect(Echo) as client:\n"
        "    session = await client.new_session()\n"
        "    await session.prompt('hello', meta='mine')",
        "meta= is a dictionary, and not 'mine'",
    ),
    Mistake(
        "async with connect(Echo) as client:\n"
        "    session = await client.new_session()\n"
        "    await session.set_mode(None)",
        "this session/set_mode cannot be sent: Expected `str`, got `null` - at `$.modeId`",
    ),
    Mistake(
        "async with connect(Echo) as client:\n    await client.new_session(additional_directories='/src')",
        "additional_directories is a list of paths: write additional_directories=['/src']",
    ),
    Mistake(
        "async with connect(Echo) as client:\n    await client.new_session(mcp_servers=['files'])",
        "this session/new cannot be sent: Expected `object`, got `str` - at `$.mcpServers[0]`",
    ),
    Mistake(
        "with blocking.connect(Echo, permission='allow'): ...",
        "permission= is a plain function that is given the request, and not 'allow'",
    ),
    Mistake("Host(asker='yes')", "asker= is an `async def` that takes a question, and not 'yes'"),
    Mistake("Host(inherit='HOME')", "inherit= is a list: write inherit=['HOME']"),
    Mistake(
        "RecordingClient(permissions='yes')",
        "permissions= must be 'allow', 'reject', 'cancel' or a function, and not 'yes'",
    ),
]

HANDLERS = [
    Mistake(
        "class Mine(Client):\n    async def request_permission(self, params): ...",
        "the result of session/request_permission cannot be sent: Mine.request_permission returned None, which is "
        "no RequestPermissionResponse: Object missing required field `outcome` - at `$`",
    ),
    Mistake(
        "class Mine(Client):\n    async def request_permission(self, params):\n        return 'allow'",
        "the result of session/request_permission cannot be sent: Mine.request_permission returned 'allow', which "
        "is no RequestPermissionResponse: Expected `object`, got `str` - at `$`",
    ),
]

NEEDED = "WebSocket and HTTP need h11, h2, websockets: pip install 'dragoman[remote]'"

WITHOUT_REMOTE = [
    Mistake("from dragoman.transports.remote import listening", NEEDED),
    Mistake("from dragoman.transports.remote import dial_websocket", NEEDED),
    Mistake("from dragoman.transports.remote import dial_http", NEEDED),
    Mistake("async with connect('ws://127.0.0.1:9/acp'): ...", f"cannot reach ws://127.0.0.1:9/acp: {NEEDED}"),
    Mistake("async with connect('http://127.0.0.1:9/acp'): ...", f"cannot reach http://127.0.0.1:9/acp: {NEEDED}"),
]

CHAPTERS = {
    "Defining an agent or a client": CLASSES,
    "In a turn": TURNS,
    "Connecting": CONNECTING,
    "Answering an agent": HANDLERS,
    "Without `dragoman[remote]`": WITHOUT_REMOTE,
}
