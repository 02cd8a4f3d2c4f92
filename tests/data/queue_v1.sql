BEGIN TRANSACTION;
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    payload TEXT NOT NULL,
    submitter TEXT NOT NULL,
    run TEXT NOT NULL,
    share TEXT NOT NULL,
    priority TEXT NOT NULL,
    submitted_wall_s REAL NOT NULL,
    submitted_boot_s REAL NOT NULL,
    submitted_boot_id TEXT NOT NULL,
    state TEXT NOT NULL,
    turn INTEGER NOT NULL,
    urgency_ms INTEGER NOT NULL,
    queued_ms INTEGER NOT NULL,
    due_ms INTEGER NOT NULL,
    ready INTEGER NOT NULL,
    fence INTEGER NOT NULL DEFAULT 0,
    crashes INTEGER NOT NULL DEFAULT 0,
    machinery_faults INTEGER NOT NULL DEFAULT 0,
    worker TEXT NOT NULL DEFAULT '',
    claimed_ms INTEGER NOT NULL DEFAULT 0,
    beat_ms INTEGER NOT NULL DEFAULT 0,
    lease_ms INTEGER NOT NULL DEFAULT 0,
    waited_ms INTEGER NOT NULL DEFAULT -1,
    ended_ms INTEGER NOT NULL DEFAULT 0,
    share_ticks INTEGER NOT NULL DEFAULT 0,
    submitter_ticks INTEGER NOT NULL DEFAULT 0,
    result TEXT NOT NULL DEFAULT '',
    fault TEXT NOT NULL DEFAULT '',
    progress TEXT NOT NULL DEFAULT '',
    cpu_s REAL NOT NULL DEFAULT 0,
    wall_s REAL NOT NULL DEFAULT 0
);
INSERT INTO "jobs" VALUES(1,'1-70242341','check','key of the done one','{"n": 1}','a','r','run r','normal',1700000000.0,1000.0,'first start','done',1,1200001,1,0,0,1,0,0,'w',1,1,30001,0,1,1000000,1000000,'{"verdict": 1}','','',1.0,1.0);
INSERT INTO "jobs" VALUES(2,'2-a98b0a90','check','key of the dead one','{}','b','','alone b','normal',1700000000.0,1000.0,'first start','dead',2,1200001,1,0,0,3,3,0,'w',1,1,30001,0,1,1000000,1000000,'','CRASHED: signal 9','',3.0,3.0);
INSERT INTO "jobs" VALUES(3,'3-fab3ba1a','check','key of the running one','{}','a','','alone a','normal',1700000000.0,1000.0,'first start','running',3,1200001,1,0,0,1,0,0,'w',1,1,30001,0,0,1000000,1000000,'','','',0.0,0.0);
INSERT INTO "jobs" VALUES(4,'4-04d06cf2','check','key of the first waiting one','{}','a','','alone a','normal',1700000000.0,1000.0,'first start','queued',4,1200001,1,0,1,0,0,0,'',0,0,0,-1,0,0,0,'','','',0.0,0.0);
INSERT INTO "jobs" VALUES(5,'5-23cf2823','check','key of the urgent one','{}','b','','alone b','high',1700000000.0,1000.0,'first start','queued',5,600001,1,0,1,0,0,0,'',0,0,0,-1,0,0,0,'','','',0.0,0.0);
CREATE TABLE lanes (
    share TEXT NOT NULL,
    submitter TEXT NOT NULL,
    kind TEXT NOT NULL,
    priority TEXT NOT NULL,
    queued INTEGER NOT NULL,
    ready INTEGER NOT NULL,
    running INTEGER NOT NULL,
    PRIMARY KEY (share, submitter, kind, priority)
) WITHOUT ROWID;
INSERT INTO "lanes" VALUES('alone a','a','check','normal',1,1,1);
INSERT INTO "lanes" VALUES('alone b','b','check','high',1,1,0);
CREATE TABLE queue (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    sequence INTEGER NOT NULL,
    paused INTEGER NOT NULL,
    boot_id TEXT NOT NULL,
    offset_ms INTEGER NOT NULL,
    seen_ms INTEGER NOT NULL,
    seen_wall_ms INTEGER NOT NULL,
    queued_ms INTEGER NOT NULL,
    measured INTEGER NOT NULL,
    cost_us INTEGER NOT NULL,
    wall_us INTEGER NOT NULL,
    generation TEXT NOT NULL,
    journal_end INTEGER NOT NULL
);
INSERT INTO "queue" VALUES(1,5,0,'first start',-999999,1,1700000000000,1,1,1000000,1000000,'e7f0ae5b4c5252f4',4428);
CREATE TABLE shares (
    share TEXT PRIMARY KEY,
    vtime INTEGER NOT NULL,
    since INTEGER NOT NULL,
    budget_cpu_s REAL NOT NULL DEFAULT 0,
    budget_jobs INTEGER NOT NULL DEFAULT 0,
    budget_wall_s REAL NOT NULL DEFAULT 0,
    first_ms INTEGER NOT NULL,
    submitted INTEGER NOT NULL DEFAULT 0,
    spent_us INTEGER NOT NULL DEFAULT 0
);
INSERT INTO "shares" VALUES('run r',1000000,1,0.0,0,0.0,1,1,1000000);
INSERT INTO "shares" VALUES('alone b',5000000,5,0.0,0,0.0,1,2,3000000);
INSERT INTO "shares" VALUES('alone a',5000000,4,0.0,0,0.0,1,2,0);
CREATE TABLE starts (submitter TEXT NOT NULL, started_ms INTEGER NOT NULL);
CREATE TABLE submitters (
    share TEXT NOT NULL,
    submitter TEXT NOT NULL,
    vtime INTEGER NOT NULL,
    since INTEGER NOT NULL,
    measured INTEGER NOT NULL DEFAULT 0,
    cost_us INTEGER NOT NULL DEFAULT 0,
    verdict_ms INTEGER NOT NULL DEFAULT 0,
    improved_ms INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (share, submitter)
) WITHOUT ROWID;
INSERT INTO "submitters" VALUES('alone a','a',1000000,4,0,0,0,0);
INSERT INTO "submitters" VALUES('alone b','b',3000000,5,0,0,0,0);
INSERT INTO "submitters" VALUES('run r','a',1000000,1,1,1000000,1,0);
CREATE INDEX shares_vtime ON shares (vtime);
CREATE INDEX starts_at ON starts (started_ms);
CREATE UNIQUE INDEX jobs_by_key ON jobs (key) WHERE state IN ('queued', 'running', 'done', 'dead');
CREATE INDEX jobs_in_lane ON jobs (share, submitter, kind, priority, urgency_ms, turn)
    WHERE state = 'queued' AND ready = 1;
CREATE INDEX jobs_due ON jobs (due_ms) WHERE state = 'queued' AND ready = 0;
CREATE INDEX jobs_waiting ON jobs (queued_ms, turn) WHERE state = 'queued';
CREATE INDEX jobs_running ON jobs (lease_ms) WHERE state = 'running';
CREATE INDEX jobs_ended ON jobs (ended_ms) WHERE state NOT IN ('queued', 'running');
CREATE TRIGGER jobs_enter AFTER INSERT ON jobs WHEN NEW.state IN ('queued', 'running') BEGIN
    INSERT INTO lanes VALUES (
        NEW.share, NEW.submitter, NEW.kind, NEW.priority,
        NEW.state = 'queued', NEW.state = 'queued' AND NEW.ready, NEW.state = 'running'
    ) ON CONFLICT (share, submitter, kind, priority) DO UPDATE SET
        queued = queued + excluded.queued, ready = ready + excluded.ready,
        running = running + excluded.running;
END;
CREATE TRIGGER jobs_move AFTER UPDATE OF state, ready ON jobs
WHEN OLD.state <> NEW.state OR OLD.ready <> NEW.ready BEGIN
    INSERT OR IGNORE INTO lanes
        VALUES (NEW.share, NEW.submitter, NEW.kind, NEW.priority, 0, 0, 0);
    UPDATE lanes SET
        queued = queued + (NEW.state = 'queued') - (OLD.state = 'queued'),
        ready = ready + (NEW.state = 'queued' AND NEW.ready) - (OLD.state = 'queued' AND OLD.ready),
        running = running + (NEW.state = 'running') - (OLD.state = 'running')
    WHERE share = NEW.share AND submitter = NEW.submitter AND kind = NEW.kind AND priority = NEW.priority;
    DELETE FROM lanes
    WHERE share = NEW.share AND submitter = NEW.submitter AND kind = NEW.kind AND priority = NEW.priority
        AND queued = 0 AND running = 0;
END;
COMMIT;
PRAGMA user_version = 1;
